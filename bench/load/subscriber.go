package load

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// Count reads messages at QoS 0 that are all of one size, and counts them by their bytes alone. It ends with the
// connection.
func Count(c net.Conn, topic string, payload int, received *atomic.Int64) {
	one, _ := Publish(topic, payload, 0)
	size := int64(len(one))
	buf := make([]byte, 256<<10)
	var bytes, counted int64
	for {
		n, err := c.Read(buf)
		bytes += int64(n)
		if now := bytes / size; now > counted {
			received.Add(now - counted)
			counted = now
		}
		if err != nil {
			return
		}
	}
}

// unlessClosed is nil for the end of a connection that this side has closed.
func unlessClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("subscriber: %w", err)
}

// Consume reads messages at QoS 1 and acknowledges all that one read has brought in one write. It returns nil when
// this side closes the connection, and an error when the broker does or when something else than a message comes.
func Consume(c net.Conn, received *atomic.Int64) error {
	buf := make([]byte, 256<<10)
	acks := make([]byte, 0, 16<<10)
	kept := 0
	for {
		n, err := c.Read(buf[kept:])
		if err != nil {
			return unlessClosed(err)
		}
		have := buf[:kept+n]
		acks = acks[:0]
		for {
			size, id, ok, err := message(have)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			acks = append(acks, typePuback, 2, id[0], id[1])
			have = have[size:]
		}
		kept = copy(buf, have)
		if len(acks) > 0 {
			if _, err := c.Write(acks); err != nil {
				return unlessClosed(err)
			}
			received.Add(int64(len(acks) / 4))
		}
	}
}

// message finds the end and the packet id of a QoS 1 PUBLISH at the front of b; ok is false while it is incomplete.
func message(b []byte) (size int, id [2]byte, ok bool, err error) {
	if len(b) < 6 {
		return 0, id, false, nil
	}
	if b[0]&0xF6 != typePublish|2 {
		return 0, id, false, fmt.Errorf("not a PUBLISH of QoS 1: % x", b[:6])
	}
	length, at := 0, 1
	for shift := 0; ; shift += 7 {
		length |= int(b[at]&127) << shift
		at++
		if b[at-1] < 128 {
			break
		}
		if at == 5 {
			return 0, id, false, fmt.Errorf("a length of more than four bytes")
		}
	}
	size = at + length
	if len(b) < size {
		return 0, id, false, nil
	}
	idAt := at + 2 + int(b[at])<<8 + int(b[at+1])
	if idAt+2 > size {
		return 0, id, false, fmt.Errorf("a topic longer than its packet")
	}
	return size, [2]byte{b[idAt], b[idAt+1]}, true, nil
}
