package auth

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// verifier is what is kept of a password: enough to check it, not to know it.
// Its text is one line without blanks.
type verifier interface {
	// check tells whether the password is right. It takes as long for a wrong one.
	check(password []byte) bool
	// text is the form in which a file has it; equal verifiers have equal texts.
	text() string
}

// scram is a verifier of SCRAM-SHA-256 (RFC 5802, RFC 7677). A server that has
// it can also let a client prove that it knows the password without sending it.
// Its text is the one PostgreSQL uses:
//
//	SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>
type scram struct {
	iterations           int
	salt                 []byte
	storedKey, serverKey [sha256.Size]byte
}

const scramName = "SCRAM-SHA-256"

// The iterations of PBKDF2. scramIterations is the least that RFC 7677 allows;
// more make a stolen file harder to use and a first login dearer.
const (
	scramIterations = 4096
	iterationsMax   = 10_000_000
	saltMax         = 1024
	scramSaltBytes  = 16
)

// newSCRAM makes a verifier with a salt of its own.
func newSCRAM(password []byte, iterations int) (*scram, error) {
	salt := make([]byte, scramSaltBytes)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("a salt for the password: %w", err)
	}
	v := &scram{iterations: iterations, salt: salt}
	v.storedKey, v.serverKey = v.keys(password)
	return v, nil
}

// keys are StoredKey and ServerKey of RFC 5802, section 3. The password is taken
// byte by byte: what clients send is not normalised.
func (v *scram) keys(password []byte) (stored, server [sha256.Size]byte) {
	salted, err := pbkdf2.Key(sha256.New, string(password), v.salt, v.iterations, sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("auth: PBKDF2 of a checked verifier: %v", err)) // its parameters are bounded
	}
	keyed := func(text string) []byte {
		m := hmac.New(sha256.New, salted)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	return sha256.Sum256(keyed("Client Key")), [sha256.Size]byte(keyed("Server Key"))
}

func (v *scram) check(password []byte) bool {
	stored, server := v.keys(password)
	return subtle.ConstantTimeCompare(stored[:], v.storedKey[:])&subtle.ConstantTimeCompare(server[:], v.serverKey[:]) == 1
}

func (v *scram) text() string {
	return fmt.Sprintf("%s$%d:%s$%s:%s", scramName, v.iterations, encode64(v.salt), encode64(v.storedKey[:]), encode64(v.serverKey[:]))
}

// parseSCRAM reads what text wrote.
func parseSCRAM(text string) (*scram, error) {
	rest, found := strings.CutPrefix(text, scramName+"$")
	if !found {
		return nil, fmt.Errorf("a verifier begins with %s$", scramName)
	}
	cost, keys, found := strings.Cut(rest, "$")
	iterations, salt, found2 := strings.Cut(cost, ":")
	stored, server, found3 := strings.Cut(keys, ":")
	if !found || !found2 || !found3 {
		return nil, fmt.Errorf("a verifier has the form %s$ITERATIONS:SALT$STOREDKEY:SERVERKEY", scramName)
	}
	v := &scram{}
	var err error
	if v.iterations, err = parseIterations(iterations, scramIterations); err != nil {
		return nil, err
	}
	if v.salt, err = decode64("salt", salt, 1, saltMax); err != nil {
		return nil, err
	}
	for _, key := range []struct {
		name, text string
		to         *[sha256.Size]byte
	}{{"stored key", stored, &v.storedKey}, {"server key", server, &v.serverKey}} {
		raw, err := decode64(key.name, key.text, sha256.Size, sha256.Size)
		if err != nil {
			return nil, err
		}
		*key.to = [sha256.Size]byte(raw)
	}
	return v, nil
}

// sha512Hash is mosquitto's $6$: SHA-512 of password and salt, once. It is as
// easy to guess as a bare hash.
type sha512Hash struct {
	salt []byte
	hash [sha512.Size]byte
}

func (v *sha512Hash) check(password []byte) bool {
	h := sha512.New()
	h.Write(password)
	h.Write(v.salt)
	return subtle.ConstantTimeCompare(h.Sum(nil), v.hash[:]) == 1
}

func (v *sha512Hash) text() string { return "$6$" + encode64(v.salt) + "$" + encode64(v.hash[:]) }

// pbkdf2Hash is mosquitto's $7$: PBKDF2 with HMAC-SHA-512.
type pbkdf2Hash struct {
	iterations int
	salt       []byte
	hash       [sha512.Size]byte
}

func (v *pbkdf2Hash) check(password []byte) bool {
	got, err := pbkdf2.Key(sha512.New, string(password), v.salt, v.iterations, sha512.Size)
	if err != nil {
		panic(fmt.Sprintf("auth: PBKDF2 of a checked verifier: %v", err))
	}
	return subtle.ConstantTimeCompare(got, v.hash[:]) == 1
}

func (v *pbkdf2Hash) text() string {
	return fmt.Sprintf("$7$%d$%s$%s", v.iterations, encode64(v.salt), encode64(v.hash[:]))
}

// parseMosquittoHash reads $6$<salt>$<hash> and $7$<iterations>$<salt>$<hash>.
func parseMosquittoHash(text string) (verifier, error) {
	parts := strings.Split(text, "$")
	switch {
	case len(parts) == 4 && parts[0] == "" && parts[1] == "6":
		v := &sha512Hash{}
		var err error
		v.salt, err = readHash(parts[2:], &v.hash)
		return v, err
	case len(parts) == 5 && parts[0] == "" && parts[1] == "7":
		v := &pbkdf2Hash{}
		var err error
		if v.iterations, err = parseIterations(parts[2], 1); err != nil {
			return nil, err
		}
		v.salt, err = readHash(parts[3:], &v.hash)
		return v, err
	case !strings.HasPrefix(text, "$"):
		return nil, errors.New("the password is not hashed: run mosquitto_passwd -U on the file")
	}
	return nil, errors.New("the password is in neither of the forms $6$SALT$HASH and $7$ITERATIONS$SALT$HASH")
}

func readHash(parts []string, hash *[sha512.Size]byte) (salt []byte, err error) {
	if salt, err = decode64("salt", parts[0], 0, saltMax); err != nil {
		return nil, err
	}
	raw, err := decode64("hash", parts[1], sha512.Size, sha512.Size)
	if err != nil {
		return nil, err
	}
	*hash = [sha512.Size]byte(raw)
	return salt, nil
}

func parseIterations(text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > iterationsMax {
		return 0, fmt.Errorf("iterations %.20q: not a number from %d to %d", text, least, iterationsMax)
	}
	return n, nil
}

func encode64(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

func decode64(what, text string, least, most int) ([]byte, error) {
	if base64.StdEncoding.DecodedLen(len(text)) > most+2 {
		return nil, fmt.Errorf("%s: longer than %d bytes", what, most)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%s: not base64", what)
	}
	if len(raw) < least || len(raw) > most {
		return nil, fmt.Errorf("%s: %d bytes, not %d to %d", what, len(raw), least, most)
	}
	return raw, nil
}
