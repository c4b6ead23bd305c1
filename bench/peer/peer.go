// Package peer starts the brokers that are measured, each on free ports with a data folder of its own, and ends
// them by their process ids.
package peer

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"emanet/bench/load"
)

// Kind tells how to start one broker.
type Kind struct {
	Name string
	// Version is what it says about itself.
	Version string
	// command gives the command line for a data folder and ports, after writing what it needs to the folder.
	command func(dir, mqtt, http string) ([]string, error)
	// ready says whether it accepts; nil: when a TCP connection is accepted.
	ready func(http string) bool
}

// Broker is a running broker.
type Broker struct {
	Kind Kind
	Addr string // MQTT
	dir  string
	http string
	cmd  *exec.Cmd
	done chan struct{}
}

// startPatience bounds a start; a stop may have to save a large backlog.
const (
	startPatience = 60 * time.Second
	stopPatience  = 120 * time.Second
)

// Emanet is our broker, with the bound of a session raised above every scenario.
func Emanet(binary, version string) Kind {
	return Kind{Name: "emanet", Version: version,
		command: func(dir, mqtt, http string) ([]string, error) {
			return []string{binary, "serve", "--data", filepath.Join(dir, "data"), "--mqtt", mqtt, "--http", http,
				"--mqtt-max-queued", "50000000"}, nil
		},
		ready: func(addr string) bool {
			client := http.Client{Timeout: time.Second}
			defer client.CloseIdleConnections()
			res, err := client.Get("http://" + addr + "/readyz")
			if err != nil {
				return false
			}
			defer res.Body.Close()
			_, _ = io.Copy(io.Discard, res.Body)
			return res.StatusCode == http.StatusOK
		}}
}

// Mosquitto is the peer, persistent and without bounds. It acknowledges before anything is on disk.
func Mosquitto(version string) Kind {
	return Kind{Name: "mosquitto", Version: version,
		command: func(dir, mqtt, _ string) ([]string, error) {
			_, port, err := net.SplitHostPort(mqtt)
			if err != nil {
				return nil, err
			}
			data := filepath.Join(dir, "data")
			if err := os.MkdirAll(data, 0o777); err != nil {
				return nil, err
			}
			conf := filepath.Join(dir, "mosquitto.conf")
			text := "listener " + port + " 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location " + data +
				"/\nmax_queued_messages 0\nmax_inflight_messages 0\nlog_type error\nlog_type warning\n"
			if os.Getuid() == 0 {
				text += "user root\n"
			}
			return []string{"mosquitto", "-c", conf}, os.WriteFile(conf, []byte(text), 0o644)
		}}
}

// Start runs a broker with an empty data folder below parent and waits until it accepts.
func Start(kind Kind, parent string) (*Broker, error) {
	dir, err := os.MkdirTemp(parent, kind.Name+"-")
	if err != nil {
		return nil, err
	}
	b := &Broker{Kind: kind, dir: dir}
	if b.Addr, err = freePort(); err != nil {
		return nil, err
	}
	if b.http, err = freePort(); err != nil {
		return nil, err
	}
	if err := b.Exec(); err != nil {
		return nil, err
	}
	return b, b.waitReady()
}

// Exec starts the process, again after Kill, and does not wait.
func (b *Broker) Exec() error {
	line, err := b.Kind.command(b.dir, b.Addr, b.http)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(b.logPath(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
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
	b.cmd, b.done = cmd, done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return nil
}

func (b *Broker) logPath() string { return filepath.Join(b.dir, "log.txt") }

// Log is what the broker has written since its last start.
func (b *Broker) Log() string {
	text, _ := os.ReadFile(b.logPath())
	return string(text)
}

func (b *Broker) waitReady() error {
	for deadline := time.Now().Add(startPatience); time.Now().Before(deadline); {
		select {
		case <-b.done:
			return fmt.Errorf("%s ended while starting:\n%s", b.Kind.Name, b.Log())
		case <-time.After(2 * time.Millisecond):
		}
		if b.Kind.ready != nil {
			if b.Kind.ready(b.http) {
				return nil
			}
		} else if c, err := net.Dial("tcp", b.Addr); err == nil {
			return c.Close()
		}
	}
	return fmt.Errorf("%s is not ready after %v:\n%s", b.Kind.Name, startPatience, b.Log())
}

// FirstAccepted connects as often as it takes and returns when a CONNECT has been accepted.
func (b *Broker) FirstAccepted() error {
	for deadline := time.Now().Add(stopPatience); time.Now().Before(deadline); {
		c, err := load.Dial(b.Addr, "first", true)
		if err == nil {
			return c.Close()
		}
		select {
		case <-b.done:
			return fmt.Errorf("%s ended while starting:\n%s", b.Kind.Name, b.Log())
		case <-time.After(time.Millisecond):
		}
	}
	return fmt.Errorf("%s accepts nobody after %v", b.Kind.Name, stopPatience)
}

// Pid is the id of the running process.
func (b *Broker) Pid() int { return b.cmd.Process.Pid }

// Kill ends the process without warning.
func (b *Broker) Kill() error {
	if err := b.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-b.done
	return nil
}

// Remove kills the process, if it still runs, and deletes its data.
func (b *Broker) Remove() error {
	return errors.Join(b.Kill(), os.RemoveAll(b.dir))
}

// freePort gives an address of the loopback interface below the kernel's range for outgoing connections, so that
// it is still free when a broker is started on it again.
func freePort() (string, error) {
	for range 200 {
		addr := "127.0.0.1:" + strconv.Itoa(20_000+rand.IntN(12_000))
		if l, err := net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.New("no free port on the loopback interface")
}
