package e2e

import (
	"bufio"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// After a power cut in the district everybody comes back in the same second, each with a password. Those who are there
// notice little, nobody is turned away for the crowd, and the broker grows by what connections cost. The first time
// each password has to be hashed, which takes a processor a while; the second time it is remembered.
func TestAStormOfConnectionsWithPasswordsRefusesNobodyAndDelaysNobodyElse(t *testing.T) {
	OnlyEmanet(t)
	connections := sized(t, 2_000, 10_000)
	openFiles(t, connections+500)
	users := filepath.Join(t.TempDir(), "users.toml")
	writeUsers(t, users, connections)
	b := Start(t, "--users", users)
	probe := StartProbe(t, b.Addr(), userName(0), secret)
	calm, before := probe.Over(3*time.Second), RSS(t, b.Pid())
	t.Logf("before: %v", calm)
	for round, name := range []string{"first logins", "logins again"} {
		s := storm{addr: b.Addr(), from: fmt.Sprintf("127.0.0.%d", 2+round), conns: make([]net.Conn, connections)}
		probe.Since()
		s.run(t)
		during := probe.Since()
		grown := PeakRSS(t, b.Pid()) - before
		t.Logf("%s: %d connections arrived within %v, the last was accepted after %v; half waited up to %v, the longest %v",
			name, connections, s.arrived.Round(time.Millisecond), s.accepted.Round(time.Millisecond),
			s.took[connections/2].Round(time.Millisecond), s.took[connections-1].Round(time.Millisecond))
		t.Logf("%s: meanwhile: %v; memory grew by %d KiB for each at the highest", name, during, grown/int64(connections)>>10)
		most := 3*calm.P99 + during.MachineP99
		if !Soak() {
			most += 500*time.Millisecond + 2*during.MachineMax // the promise needs a machine on which nothing else runs
		}
		if during.P99 > most {
			t.Errorf("%s: others waited %v, before %v", name, during, calm)
		}
		if most := int64(connections)*24<<10 + 32<<20; grown > most && os.Getenv("EMANET_E2E_RACE") != "1" {
			t.Errorf("%s: memory grew by %d MiB, more than %d MiB", name, grown>>20, most>>20)
		}
		probe.Since()
		s.leave() // all at the same moment: the crowd that comes next is measured without that
		Eventually(t, "all have left", func() bool { return b.Metrics()["emanet_mqtt_connections"] < float64(connections)/100 })
		t.Logf("%s: while all left at once: %v", name, probe.Since())
	}
}

// storm opens connections spread evenly over one second, whether or not those before were answered.
type storm struct {
	addr, from string
	conns      []net.Conn
	took       []time.Duration // from the moment a connection was due to its CONNACK, sorted
	arrived    time.Duration   // until the last CONNECT was written
	accepted   time.Duration   // until the last CONNACK came
}

func (s *storm) run(t *testing.T) {
	t.Helper()
	n := len(s.conns)
	s.took = make([]time.Duration, n)
	errs := make([]error, n)
	var arrived atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for i := range n {
		due := began.Add(time.Second * time.Duration(i) / time.Duration(n))
		timer := time.NewTimer(time.Until(due))
		<-timer.C
		group.Go(func() {
			connect := Clean(4, fmt.Sprint("storm-", i))
			connect.User, connect.Password = userName(i), secret
			s.conns[i], errs[i] = s.open(connect, func() { arrived.Store(int64(time.Since(began))) })
			s.took[i] = time.Since(due)
		})
	}
	group.Wait()
	s.arrived, s.accepted = time.Duration(arrived.Load()), time.Since(began)
	slices.Sort(s.took)
	refused := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(refused) > 0 {
		t.Fatalf("%d of %d connections were refused, the first: %v", len(refused), n, refused[0])
	}
	for _, c := range []net.Conn{s.conns[0], s.conns[n/2], s.conns[n-1]} { // they are there to stay
		_ = c.SetDeadline(time.Now().Add(Patience))
		if _, err := c.Write([]byte{0xC0, 0}); err != nil {
			t.Fatal(err)
		}
		if p, err := ReadPacket(bufio.NewReader(c), 4); err != nil || p.Type != PINGRESP {
			t.Fatalf("PINGREQ is answered by %v, %v", p, err)
		}
	}
}

func (s *storm) open(connect Connect, written func()) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(s.from)}, Timeout: 6 * Patience}
	c, err := dialer.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(6 * Patience)) // longer than any client waits
	if _, err := c.Write(connect.Bytes()); err != nil {
		return c, err
	}
	written()
	p, err := ReadPacket(bufio.NewReaderSize(c, 64), 4)
	if err == nil && (p.Type != CONNACK || p.Code != 0) {
		err = fmt.Errorf("refused: %v", p)
	}
	return c, err
}

// leave ends all connections without TIME_WAIT, which would keep their ports.
func (s *storm) leave() {
	for _, c := range s.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

const secret = "of all meters"

func userName(i int) string { return fmt.Sprint("meter-", i) }

// writeUsers writes a users file as `emanet user add` does, which would take a process for each. All have one
// password and one salt, which the broker does not make use of: it hashes for each user.
func writeUsers(t *testing.T, path string, count int) {
	t.Helper()
	verifier := scramVerifier(secret)
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "[users.%s]\npassword = %q\ntopics = [{ access = \"readwrite\", topic = \"#\" }]\n\n", userName(i), verifier)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// scramVerifier is what RFC 5802, section 3, lets a server keep of a password.
func scramVerifier(password string) string {
	const iterations = 4096
	salt := make([]byte, 16)
	_, _ = rand.Read(salt)
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		panic(err)
	}
	keyed := func(text string) []byte {
		m := hmac.New(sha256.New, salted)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := sha256.Sum256(keyed("Client Key"))
	in64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, in64(salt), in64(stored[:]), in64(keyed("Server Key")))
}

// openFiles lets this process, and the broker it starts, hold so many sockets each.
func openFiles(t *testing.T, want int) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur, limit.Max = max(limit.Cur, uint64(want)), max(limit.Max, uint64(want))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatalf("raising the limit of open files to %d: %v", want, err)
	}
}
