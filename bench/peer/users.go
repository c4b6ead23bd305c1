package peer

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func userName(i int) string { return fmt.Sprint("user-", i) }
func password(i int) string { return fmt.Sprint("password-", i) }

// scramIterations is what `emanet user add` takes.
const scramIterations = 4096

// writeUsers writes what `emanet user add` would, which is a process for each.
func writeUsers(path string, count int) error {
	var text strings.Builder
	in64 := base64.StdEncoding.EncodeToString
	for i := range count {
		salt := make([]byte, 16)
		_, _ = rand.Read(salt)
		salted, err := pbkdf2.Key(sha256.New, password(i), salt, scramIterations, sha256.Size)
		if err != nil {
			return err
		}
		keyed := func(text string) []byte {
			m := hmac.New(sha256.New, salted)
			m.Write([]byte(text))
			return m.Sum(nil)
		}
		stored := sha256.Sum256(keyed("Client Key"))
		fmt.Fprintf(&text, "[users.%s]\npassword = \"SCRAM-SHA-256$%d:%s$%s:%s\"\n\n", userName(i), scramIterations,
			in64(salt), in64(stored[:]), in64(keyed("Server Key")))
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

// writePasswords lets the peer's own tool hash them.
func writePasswords(path string, count int) error {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "%s:%s\n", userName(i), password(i))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return err
	}
	if out, err := exec.Command("mosquitto_passwd", "-U", path).CombinedOutput(); err != nil {
		return fmt.Errorf("mosquitto_passwd: %w\n%s", err, out)
	}
	return nil
}
