package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a broker as a child process: what it was started with stays, so that it can be started again.
type process struct {
	kind    string // "emanet", "mosquitto", or "" for a broker somebody else runs
	root    string // folder of the logs, and of the data unless dataDir names another
	dataDir string
	mqtt    string
	http    string
	args    []string
	// wrap is put in front of the command line: an emulator. bin is the broker when it is not the one of Binary.
	wrap []string
	bin  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the present child has ended
	err  error         // how it ended
	run  int           // counts starts; names the log
}

// startupPatience bounds one start: a full journal may have to be replayed on a busy machine.
const startupPatience = 60 * time.Second

func (p *process) data() string {
	if p.dataDir != "" {
		return p.dataDir
	}
	return filepath.Join(p.root, "data")
}

func (p *process) logPath() string { return p.logOf(p.run) }

func (p *process) logOf(run int) string { return filepath.Join(p.root, fmt.Sprintf("log-%d.txt", run)) }

func (p *process) log() string {
	b, _ := os.ReadFile(p.logPath())
	return string(b)
}

func (p *process) commandLine() ([]string, error) {
	if err := os.MkdirAll(p.data(), 0o777); err != nil {
		return nil, err
	}
	if p.kind == "mosquitto" {
		conf := filepath.Join(p.root, "mosquitto.conf")
		if err := os.WriteFile(conf, []byte(mosquittoConf(p)), 0o644); err != nil {
			return nil, err
		}
		path, err := exec.LookPath("mosquitto")
		return append(slices.Clone(p.wrap), path, "-c", conf), err
	}
	bin := p.bin
	if bin == "" {
		var err error
		if bin, err = Binary(); err != nil {
			return nil, err
		}
	}
	line := append(slices.Clone(p.wrap), bin, "serve", "--data", p.data(), "--mqtt", p.mqtt, "--http", p.http)
	return append(line, p.args...), nil
}

func mosquittoConf(p *process) string {
	host, port, _ := net.SplitHostPort(p.mqtt)
	conf := "listener " + port + " " + host + "\nallow_anonymous true\npersistence true\npersistence_location " + p.data() + "/\n" +
		"max_inflight_messages 0\nuser root\nlog_type error\nlog_type warning\nlog_type notice\n"
	queued := "0"
	for i := 0; i+1 < len(p.args); i += 2 {
		if p.args[i] == "--mqtt-max-queued" {
			queued = p.args[i+1]
		}
	}
	return conf + "max_queued_messages " + queued + "\n"
}

// spawn starts the child and does not wait until it is ready.
func (p *process) spawn() error {
	line, err := p.commandLine()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run++
	log, err := os.Create(p.logPath())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	p.cmd, p.done, p.err = cmd, done, nil
	running.Store(p.mqtt, p)
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(done)
	}()
	return nil
}

// waitReady polls until the broker accepts, or says why it never will.
func (p *process) waitReady() error {
	deadline := time.After(startupPatience)
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		if p.ready() {
			return nil
		}
		select {
		case <-p.done:
			how := p.err
			if how == nil {
				how = errors.New("exit code 0")
			}
			return fmt.Errorf("the broker ended while starting: %w; its log:\n%s", how, tail(p.log()))
		case <-deadline:
			return fmt.Errorf("the broker is not ready after %v; its log:\n%s", startupPatience, tail(p.log()))
		case <-tick.C:
		}
	}
}

func (p *process) ready() bool {
	if p.kind == "mosquitto" {
		conn, err := net.Dial("tcp", p.mqtt)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	client := http.Client{Timeout: time.Second}
	res, err := client.Get("http://" + p.http + "/readyz")
	if err != nil {
		return false
	}
	res.Body.Close()
	client.CloseIdleConnections()
	return res.StatusCode == http.StatusOK
}

// end sends the signal and waits for the child's end.
func (p *process) end(sig syscall.Signal) error {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-done:
		return p.err
	case <-time.After(startupPatience):
		_ = cmd.Process.Kill()
		<-done
		return fmt.Errorf("the broker did not end within %v of %v", startupPatience, sig)
	}
}

// running has every process by its MQTT address.
var running sync.Map

// dump asks a broker that owes an answer what its goroutines do, when EMANET_E2E_DUMP is set. It ends the broker.
func dump(t testing.TB, addr string, err error) {
	t.Helper()
	p, ok := running.Load(addr)
	if !ok || os.Getenv("EMANET_E2E_DUMP") == "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	_ = p.(*process).end(syscall.SIGQUIT)
	t.Logf("goroutines:\n%s", p.(*process).log())
}

func tail(log string) string {
	const most = 6000
	if len(log) > most {
		return "…" + log[len(log)-most:]
	}
	return log
}

// FreePort gives a port of the loopback interface on which nobody listens. It is taken from below the range of
// the kernel's outgoing connections, so that it is still free when a broker is started on it again.
func FreePort() (string, error) {
	for range 200 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			l.Close()
			return strconv.Itoa(port), nil
		}
	}
	return "", errors.New("no free port on the loopback interface")
}

// Binary gives the path of the broker, built once per test run. EMANET_E2E_BIN names one that is already built;
// EMANET_E2E_RACE=1 builds with the race detector.
var Binary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("EMANET_E2E_BIN"); bin != "" {
		return bin, nil
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	out := filepath.Join(scratch(), "emanet")
	args := []string{"build", "-o", out}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if os.Getenv("EMANET_E2E_RACE") == "1" {
		args, env = append(args, "-race"), append(env, "CGO_ENABLED=1")
	}
	cmd := exec.Command("go", append(args, "./cmd/emanet")...)
	cmd.Dir, cmd.Env = root, env
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the broker: %w\n%s", err, text)
	}
	return out, nil
})

// repository is the folder of the product's module, above this one.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module emanet\n") {
			return dir, nil
		}
	}
	return "", errors.New("the repository of emanet is not above the working folder")
}

// scratch is the folder of this test run.
var scratch = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "emanet-e2e-")
	if err != nil {
		panic(err)
	}
	return dir
})
