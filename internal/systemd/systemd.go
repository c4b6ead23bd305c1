// Package systemd tells a service manager how the process is: the protocol of sd_notify(3), one datagram a message.
package systemd

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Manager is who started the process and wants to know. The nil Manager is nobody: what it is told is lost.
type Manager struct {
	socket   net.UnixAddr
	watchdog time.Duration
}

// FromEnvironment finds the manager by NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID; nil without the first. pid is
// the process's own: the watchdog may be meant for another one.
func FromEnvironment(getenv func(string) string, pid int) (*Manager, error) {
	name := getenv("NOTIFY_SOCKET")
	switch {
	case name == "":
		return nil, nil //nolint:nilnil // nobody to tell is no error
	case name[0] != '/' && name[0] != '@':
		return nil, fmt.Errorf("NOTIFY_SOCKET %q is neither a path nor an abstract socket", name)
	}
	m := &Manager{socket: net.UnixAddr{Net: "unixgram", Name: name}}
	usec := getenv("WATCHDOG_USEC")
	if usec == "" {
		return m, nil
	}
	if of := getenv("WATCHDOG_PID"); of != "" && of != strconv.Itoa(pid) {
		return m, nil
	}
	n, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || n <= 0 || n > int64(24*time.Hour/time.Microsecond) {
		return nil, fmt.Errorf("WATCHDOG_USEC %q is no number of microseconds up to a day", usec)
	}
	m.watchdog = time.Duration(n) * time.Microsecond
	return m, nil
}

// Watchdog is the longest time that may pass between two calls of Alive; 0 when nobody watches.
func (m *Manager) Watchdog() time.Duration {
	if m == nil {
		return 0
	}
	return m.watchdog
}

// Status says in a line for people how the process is.
func (m *Manager) Status(text string) error { return m.send("STATUS=" + line(text)) }

// Ready says that the start, or a reload, is over.
func (m *Manager) Ready(text string) error { return m.send("READY=1\nSTATUS=" + line(text)) }

// Reloading says that the configuration is being read again, until Ready.
func (m *Manager) Reloading() error {
	now, err := monotonic()
	if err != nil {
		return fmt.Errorf("monotonic clock: %w", err)
	}
	return m.send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(now.Microseconds(), 10) + "\nSTATUS=reloading")
}

// Stopping says that the end has begun.
func (m *Manager) Stopping(text string) error { return m.send("STOPPING=1\nSTATUS=" + line(text)) }

// Alive keeps the watchdog quiet.
func (m *Manager) Alive() error { return m.send("WATCHDOG=1") }

// line keeps a text from being taken for another assignment.
func line(text string) string { return strings.ReplaceAll(text, "\n", " ") }

func (m *Manager) send(state string) error {
	if m == nil {
		return nil
	}
	// A socket for each message: there are few, and the manager may have been started anew meanwhile.
	conn, err := net.DialUnix("unixgram", nil, &m.socket)
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		_ = conn.Close()
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return conn.Close()
}
