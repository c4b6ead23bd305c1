// Package peer starts the brokers that are measured, each on free ports with a data folder of its own, and ends
// them by their process ids.
package peer

import (
	"crypto/tls"
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
	// command gives the command line for a broker, after writing what it needs to its folder.
	command func(*Broker) ([]string, error)
	// ready says whether it accepts; nil: when a TCP connection is accepted.
	ready func(http string) bool
	// path is that of a WebSocket.
	path string
}

// Needs is what a scenario asks of a broker beside MQTT over TCP.
type Needs struct {
	TLS       bool
	WebSocket bool
	// Users is how many users there are; with 0 everybody is let in.
	Users int
}

// Broker is a running broker.
type Broker struct {
	Kind  Kind
	Needs Needs
	Addr  string // MQTT over TCP
	dir   string
	tls   string // MQTT over TLS
	http  string // of emanet, for readiness and WebSocket; the peer's listener for WebSocket
	trust *tls.Config
	cmd   *exec.Cmd
	done  chan struct{}
}

// startPatience bounds a start; a stop may have to save a large backlog.
const (
	startPatience = 60 * time.Second
	stopPatience  = 120 * time.Second
)

// Target is MQTT over TCP. Where there are users it is the first of them.
func (b *Broker) Target() load.Target { return b.TargetOf(0) }

// TargetOf is Target for a user by number.
func (b *Broker) TargetOf(user int) load.Target {
	t := load.Target{Addr: b.Addr}
	if b.Needs.Users > 0 {
		t.User, t.Password = userName(user), password(user)
	}
	return t
}

// Secure is MQTT over TLS, WebSocket over plain HTTP.
func (b *Broker) Secure() load.Target    { return load.Target{Addr: b.tls, TLS: b.trust} }
func (b *Broker) WebSocket() load.Target { return load.Target{Addr: b.http, Path: b.Kind.path} }

// Emanet is our broker, with the bound of a session raised above every scenario.
func Emanet(binary, version string) Kind {
	return Kind{Name: "emanet", Version: version, path: "/mqtt",
		command: func(b *Broker) ([]string, error) {
			line := []string{binary, "serve", "--data", filepath.Join(b.dir, "data"), "--mqtt", b.Addr, "--http", b.http,
				"--mqtt-max-queued", "50000000"}
			if b.Needs.TLS {
				line = append(line, "--mqtts", b.tls, "--tls-cert", b.file(certFile), "--tls-key", b.file(keyFile))
			}
			if b.Needs.Users > 0 {
				line = append(line, "--users", b.file("users.toml"))
				return line, writeUsers(b.file("users.toml"), b.Needs.Users)
			}
			return line, nil
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
	return Kind{Name: "mosquitto", Version: version, path: "/",
		command: func(b *Broker) ([]string, error) {
			data := b.file("data")
			if err := os.MkdirAll(data, 0o777); err != nil {
				return nil, err
			}
			text := "persistence true\npersistence_location " + data + "/\nmax_queued_messages 0\nmax_inflight_messages 0\n" +
				"log_type error\nlog_type warning\n"
			if os.Getuid() == 0 {
				text += "user root\n"
			}
			if b.Needs.Users == 0 {
				text += "allow_anonymous true\n"
			} else {
				text += "allow_anonymous false\npassword_file " + b.file("passwords") + "\n"
				if err := writePasswords(b.file("passwords"), b.Needs.Users); err != nil {
					return nil, err
				}
			}
			text += listener(b.Addr, "")
			if b.Needs.TLS {
				text += listener(b.tls, "certfile "+b.file(certFile)+"\nkeyfile "+b.file(keyFile)+"\n")
			}
			if b.Needs.WebSocket {
				_, port, _ := net.SplitHostPort(b.http)
				text += "listener " + port + " lo\nprotocol websockets\n" // here an address would mean every interface
			}
			conf := b.file("mosquitto.conf")
			return []string{"mosquitto", "-c", conf}, os.WriteFile(conf, []byte(text), 0o644)
		}}
}

func listener(addr, more string) string {
	host, port, _ := net.SplitHostPort(addr)
	return "listener " + port + " " + host + "\n" + more
}

func (b *Broker) file(name string) string { return filepath.Join(b.dir, name) }

// Start runs a broker with an empty data folder below parent and waits until it accepts.
func Start(kind Kind, needs Needs, parent string) (*Broker, error) {
	dir, err := os.MkdirTemp(parent, kind.Name+"-")
	if err != nil {
		return nil, err
	}
	b := &Broker{Kind: kind, Needs: needs, dir: dir}
	for _, addr := range []*string{&b.Addr, &b.tls, &b.http} {
		if *addr, err = freePort(); err != nil {
			return nil, err
		}
	}
	if needs.TLS {
		if b.trust, err = writeCertificate(b.file(certFile), b.file(keyFile)); err != nil {
			return nil, err
		}
	}
	if err := b.Exec(); err != nil {
		return nil, err
	}
	return b, b.waitReady()
}

// Exec starts the process, again after Kill, and does not wait.
func (b *Broker) Exec() error {
	line, err := b.Kind.command(b)
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
		} else if b.acceptsAll() {
			return nil
		}
	}
	return fmt.Errorf("%s is not ready after %v:\n%s", b.Kind.Name, startPatience, b.Log())
}

// acceptsAll tries every listener that the scenario needs.
func (b *Broker) acceptsAll() bool {
	addrs := []string{b.Addr}
	if b.Needs.TLS {
		addrs = append(addrs, b.tls)
	}
	if b.Needs.WebSocket {
		addrs = append(addrs, b.http)
	}
	for _, addr := range addrs {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		c.Close()
	}
	return true
}

// FirstAccepted connects as often as it takes and returns when a CONNECT has been accepted.
func (b *Broker) FirstAccepted() error {
	for deadline := time.Now().Add(stopPatience); time.Now().Before(deadline); {
		c, err := b.Target().Dial("first", true)
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
