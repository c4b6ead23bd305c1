package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Latencies tells how long messages of a Probe took from the moment they were due until they were delivered. Machine
// is the same for bytes that this process sends to itself beside the messages: what of a delay is the machine's, which a
// test shares with whatever else runs there.
type Latencies struct {
	Count                  int
	P50, P99, Max          time.Duration
	MachineP99, MachineMax time.Duration
}

func (l Latencies) String() string {
	us := func(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
	return fmt.Sprintf("%d messages, p50 %v, p99 %v, max %v (without a broker p99 %v, max %v)",
		l.Count, us(l.P50), us(l.P99), us(l.Max), us(l.MachineP99), us(l.MachineMax))
}

// Probe is what other clients notice: a publisher and a subscriber at QoS 1, one message each 5 ms, in a process
// of their own, so that they do not wait for goroutines of the test.
type Probe struct {
	t       testing.TB
	ask     io.WriteCloser
	answers *bufio.Reader
}

// probeVariable names the broker's address, user and password to the child process; Main looks at it.
const probeVariable = "EMANET_E2E_PROBE"

const probeInterval = 5 * time.Millisecond

// StartProbe starts a probe, which measures until the end of the test. user may be empty.
func StartProbe(t testing.TB, addr, user, password string) *Probe {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), probeVariable+"="+strings.Join([]string{addr, user, password}, "\n"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the probe: %v", err)
		}
	})
	return &Probe{t: t, ask: in, answers: bufio.NewReader(out)}
}

// Since gives what was measured since the last call.
func (p *Probe) Since() (l Latencies) {
	p.t.Helper()
	if _, err := io.WriteString(p.ask, "\n"); err != nil {
		p.t.Fatalf("asking the probe: %v", err)
	}
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("the probe answers nothing: %v", err)
	}
	if err := json.Unmarshal(line, &l); err != nil {
		p.t.Fatalf("the probe answers %q: %v", line, err)
	}
	return l
}

// Over measures for a time in which nothing else happens.
func (p *Probe) Over(d time.Duration) Latencies {
	p.t.Helper()
	p.Since()
	timer := time.NewTimer(d)
	<-timer.C
	return p.Since()
}

// probe is the child process: it answers each line of its input, and ends with it.
func probe(of string) error {
	where := strings.SplitN(of, "\n", 3)
	var mu sync.Mutex
	var took, bare []time.Duration
	failed := make(chan error, 2)
	go func() {
		failed <- measure(where[0], where[1], where[2], func(d time.Duration) {
			mu.Lock()
			took = append(took, d)
			mu.Unlock()
		})
	}()
	go func() {
		failed <- measureMachine(func(d time.Duration) {
			mu.Lock()
			bare = append(bare, d)
			mu.Unlock()
		})
	}()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			asked <- struct{}{}
		}
	}()
	for {
		select {
		case err := <-failed:
			return err
		case _, more := <-asked:
			if !more {
				return nil
			}
		}
		mu.Lock()
		l := latencies(took, bare)
		took, bare = nil, nil
		mu.Unlock()
		if err := json.NewEncoder(os.Stdout).Encode(l); err != nil {
			return err
		}
	}
}

func latencies(took, bare []time.Duration) Latencies {
	n := len(took)
	if n == 0 || len(bare) == 0 {
		return Latencies{}
	}
	slices.Sort(took)
	slices.Sort(bare)
	return Latencies{Count: n, P50: took[n/2], P99: took[n*99/100], Max: took[n-1], MachineP99: bare[len(bare)*99/100], MachineMax: bare[len(bare)-1]}
}

// measure publishes a message at each interval and reports the time from then until it has come. One that is held up
// holds up those behind it, whose time counts from when they were due.
func measure(addr, user, password string, report func(time.Duration)) error {
	topic := Name("probe")
	open := func(role string) (net.Conn, *bufio.Reader, error) {
		c, err := net.DialTimeout("tcp", addr, Patience)
		if err != nil {
			return nil, nil, err
		}
		connect := Clean(4, topic+role)
		connect.User, connect.Password = user, password
		r := bufio.NewReader(c)
		if _, err = c.Write(connect.Bytes()); err == nil {
			err = expect(r, CONNACK)
		}
		return c, r, err
	}
	sub, in, err := open("-sub")
	if err != nil {
		return err
	}
	if _, err = sub.Write(SubscribeBytes(4, 1, nil, To(topic, 1))); err == nil {
		err = expect(in, SUBACK)
	}
	if err != nil {
		return err
	}
	pub, acks, err := open("-pub")
	if err != nil {
		return err
	}
	for due := time.Now(); ; due = due.Add(probeInterval) {
		timer := time.NewTimer(time.Until(due))
		<-timer.C
		if _, err := pub.Write(Packet{Type: PUBLISH, Topic: topic, QoS: 1, ID: 1, Payload: make([]byte, 100)}.Bytes(4)); err != nil {
			return err
		}
		p, err := ReadPacket(in, 4)
		if err != nil {
			return err
		}
		report(time.Since(due))
		if _, err := sub.Write(Packet{Type: PUBACK, ID: p.ID}.Bytes(4)); err != nil {
			return err
		}
		if err := expect(acks, PUBACK); err != nil {
			return err
		}
	}
}

func expect(r *bufio.Reader, kind byte) error {
	p, err := ReadPacket(r, 4)
	if err == nil && (p.Type != kind || p.Code != 0) {
		err = fmt.Errorf("%v instead of %s", p, typeNames[kind])
	}
	return err
}

// measureMachine sends bytes over a connection of this process with itself, and reports the time from when they were
// due until they were back.
func measureMachine(report func(time.Duration)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	far, err := l.Accept()
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(far, far) }()
	for b := make([]byte, 100); ; {
		due := time.Now().Add(time.Millisecond)
		timer := time.NewTimer(time.Until(due))
		<-timer.C
		if _, err := near.Write(b); err != nil {
			return err
		}
		if _, err := io.ReadFull(near, b); err != nil {
			return err
		}
		report(time.Since(due))
	}
}
