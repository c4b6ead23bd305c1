package load

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Lone publishes one message at a time on a blocking socket, so that no scheduler of ours is in the measured time.
type Lone struct {
	file   *os.File
	packet []byte
	idAt   int
	id     uint16
}

// NewLone takes over the connection.
func NewLone(c net.Conn, topic string, payload int) (*Lone, error) {
	file, err := socket(c).File()
	if err != nil {
		return nil, err
	}
	c.Close()
	l := &Lone{file: file}
	l.packet, l.idAt = Publish(topic, payload, 1)
	limit := syscall.NsecToTimeval(Patience.Nanoseconds())
	return l, syscall.SetsockoptTimeval(int(file.Fd()), syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit)
}

// Size is the number of bytes of one message on the wire.
func (l *Lone) Size() int { return len(l.packet) }

// Close ends the connection.
func (l *Lone) Close() error { return l.file.Close() }

// Run publishes count messages and gives the time from each write to its PUBACK.
func (l *Lone) Run(count int) ([]time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd := int(l.file.Fd()) // Fd makes the socket a blocking one
	var ack [4]byte
	took := make([]time.Duration, 0, count)
	for range count {
		if l.id++; l.id == 0 {
			l.id = 1
		}
		binary.BigEndian.PutUint16(l.packet[l.idAt:], l.id)
		began := time.Now()
		if _, err := syscall.Write(fd, l.packet); err != nil {
			return nil, err
		}
		for have := 0; have < len(ack); {
			n, err := syscall.Read(fd, ack[have:])
			if err == syscall.EINTR {
				continue
			}
			if err == nil && n == 0 {
				err = io.EOF
			}
			if err != nil {
				return nil, fmt.Errorf("waiting for PUBACK %d: %w", l.id, err)
			}
			have += n
		}
		took = append(took, time.Since(began))
		if ack[0] != typePuback || binary.BigEndian.Uint16(ack[2:]) != l.id {
			return nil, fmt.Errorf("PUBLISH %d answered by % x", l.id, ack)
		}
	}
	return took, nil
}
