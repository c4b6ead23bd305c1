package transport

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"
)

// frame is a client's: masked.
func frame(op ws.OpCode, payload string, change ...func(*ws.Frame)) []byte {
	f := ws.NewFrame(op, true, []byte(payload))
	for _, c := range change {
		c(&f)
	}
	var out bytes.Buffer
	if err := ws.WriteFrame(&out, ws.MaskFrame(f)); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func unfinished(f *ws.Frame) { f.Header.Fin = false }

// browser is a client's end after the handshake.
type browser struct {
	testing.TB
	nc net.Conn
	in *bufio.Reader
}

func (b *browser) send(frames ...[]byte) {
	b.Helper()
	if _, err := b.nc.Write(bytes.Join(frames, nil)); err != nil {
		b.Fatal(err)
	}
}

// next reads a frame from the server.
func (b *browser) next() ws.Frame {
	b.Helper()
	h, err := ws.ReadHeader(b.in)
	if err != nil {
		b.Fatal(err)
	}
	if h.Masked || !h.Fin || h.Length > bufferSize {
		b.Fatalf("%+v", h)
	}
	payload := make([]byte, h.Length)
	if _, err := io.ReadFull(b.in, payload); err != nil {
		b.Fatal(err)
	}
	return ws.Frame{Header: h, Payload: payload}
}

func (b *browser) closedWith(code ws.StatusCode) {
	b.Helper()
	f := b.next()
	got, _ := ws.ParseCloseFrameData(f.Payload)
	if f.Header.OpCode != ws.OpClose || got != code {
		b.Fatalf("%v with %d, not %d", f.Header.OpCode, got, code)
	}
}

// webSocket opens a connection: both ends.
func webSocket(t testing.TB, change ...func(*WebSocket)) (*Conn, *browser) {
	t.Helper()
	w := new(WebSocket)
	for _, f := range change {
		f(w)
	}
	l := listen(t)
	accepted := webSockets(t, l, w)
	nc := l.dial(t)
	in := upgrade(t, nc)
	return <-accepted, &browser{t, nc, in}
}

// upgrade does the client's part of the handshake by hand, and may send more right after it.
func upgrade(t testing.TB, nc net.Conn, early ...[]byte) *bufio.Reader {
	t.Helper()
	request := "GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqttv3.1, mqtt\r\n\r\n"
	if _, err := nc.Write(append([]byte(request), bytes.Join(early, nil)...)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(nc)
	head := ""
	for !strings.HasSuffix(head, "\r\n\r\n") {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("%q, %v", head, err)
		}
		head += line
	}
	if !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "Sec-WebSocket-Protocol: mqtt\r\n") { // [MQTT-6.0.0-4] [MQTT311-6.0.0-4]
		t.Fatal(head)
	}
	return in
}

func expect(t testing.TB, c *Conn, want string) {
	t.Helper()
	p := make([]byte, len(want))
	if _, err := io.ReadFull(c, p); err != nil || string(p) != want {
		t.Fatalf("%q, %v", p, err)
	}
}

func TestFramesAreOneStreamHoweverTheyAreCut(t *testing.T) { // [MQTT-6.0.0-2] [MQTT311-6.0.0-2]
	c, b := webSocket(t)
	sent := noise(500_000)
	go func() {
		var wire []byte
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), rand.IntN(3)*rand.IntN(30_000)+rand.IntN(200))
			wire = append(wire, frame(ws.OpBinary, string(rest[:n]), unfinished)...)
			rest = rest[n:]
			for rand.IntN(3) > 0 {
				n := min(len(rest), rand.IntN(70_000))
				wire = append(wire, frame(ws.OpContinuation, string(rest[:n]), unfinished)...)
				wire = append(wire, frame(ws.OpPong, "in between")...)
				rest = rest[n:]
			}
			wire = append(wire, frame(ws.OpContinuation, "")...)
		}
		for len(wire) > 0 {
			n := min(len(wire), 1+rand.IntN(20_000))
			_, _ = b.nc.Write(wire[:n])
			wire = wire[n:]
		}
		_, _ = b.nc.Write(frame(ws.OpClose, ""))
	}()
	var got []byte
	for {
		p := make([]byte, 1+rand.IntN(70_000))
		n, err := c.Read(p)
		got = append(got, p[:n]...)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d", len(got), len(sent))
	}
}

func TestByteByByteIsEnough(t *testing.T) {
	c, b := webSocket(t)
	wire := bytes.Join([][]byte{frame(ws.OpBinary, "one"), frame(ws.OpPing, "?"), frame(ws.OpBinary, strings.Repeat("x", 300))}, nil)
	go func() {
		for i := range wire {
			_, _ = b.nc.Write(wire[i : i+1])
		}
	}()
	expect(t, c, "one"+strings.Repeat("x", 300))
	if f := b.next(); f.Header.OpCode != ws.OpPong || string(f.Payload) != "?" {
		t.Errorf("%+v", f)
	}
	if c.frames.raw != nil {
		t.Error("a connection with nothing at hand holds a buffer")
	}
}

// A read that is too small for what has come must not leave it until more comes.
func TestWhatHasComeIsReadWithoutMoreComing(t *testing.T) {
	c, b := webSocket(t)
	b.send(frame(ws.OpBinary, "ab"), frame(ws.OpBinary, "cd"), frame(ws.OpBinary, "ef"))
	for _, want := range []string{"a", "b", "c", "def"} {
		expect(t, c, want)
	}
}

func TestWhatIsSentComesInBinaryFrames(t *testing.T) { // [MQTT-6.0.0-1] [MQTT311-6.0.0-1]
	c, b := webSocket(t)
	for _, size := range []int{1, 125, 126, 60_000, 200_000} {
		sent := noise(size)
		go func() {
			if _, err := c.WriteBuffers(&net.Buffers{sent[:size/2], sent[size/2:]}); err != nil {
				t.Error(err)
			}
		}()
		var got []byte
		for len(got) < size {
			f := b.next()
			if f.Header.OpCode != ws.OpBinary {
				t.Fatal(f.Header)
			}
			got = append(got, f.Payload...)
		}
		if !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came otherwise", size)
		}
	}
}

// The bound on frames is that of ws-max-frame-bytes.
func TestBreachesEndTheConnectionWithTheirCode(t *testing.T) {
	unmasked := new(bytes.Buffer)
	_ = ws.WriteFrame(unmasked, ws.NewBinaryFrame([]byte("x")))
	lying := binary.BigEndian.AppendUint64([]byte{0x82, 0xFF}, 1<<62)
	negative := binary.BigEndian.AppendUint64([]byte{0x82, 0xFF}, 1<<63)
	for name, test := range map[string]struct {
		sent []byte
		code ws.StatusCode
	}{
		"text":                               {frame(ws.OpText, "{}"), ws.StatusUnsupportedData}, // [MQTT-6.0.0-1] [MQTT311-6.0.0-1]
		"a frame that is not masked":         {unmasked.Bytes(), ws.StatusProtocolError},
		"a length that reserves no memory":   {append(lying, 1, 2, 3, 4), ws.StatusMessageTooBig},
		"a negative length":                  {append(negative, 1, 2, 3, 4), ws.StatusMessageTooBig},
		"a frame above the bound":            {frame(ws.OpBinary, strings.Repeat("x", 1001)), ws.StatusMessageTooBig},
		"a continuation of nothing":          {frame(ws.OpContinuation, "x"), ws.StatusProtocolError},
		"a new message within one":           {append(frame(ws.OpBinary, "", unfinished), frame(ws.OpBinary, "")...), ws.StatusProtocolError},
		"a reserved bit":                     {frame(ws.OpBinary, "x", func(f *ws.Frame) { f.Header.Rsv = ws.Rsv(true, false, false) }), ws.StatusProtocolError},
		"a reserved operation":               {frame(0x0B, "x"), ws.StatusProtocolError},
		"a control frame in parts":           {frame(ws.OpPing, "x", unfinished), ws.StatusProtocolError},
		"a control frame that is long":       {frame(ws.OpPing, strings.Repeat("x", 126)), ws.StatusProtocolError},
		"half a closing code":                {frame(ws.OpClose, "\x03"), ws.StatusProtocolError},
		"a closing code that nobody may use": {frame(ws.OpClose, "\x03\xed"), ws.StatusProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			c, b := webSocket(t, func(w *WebSocket) { w.MaxFrame = 1000 })
			b.send(frame(ws.OpBinary, "before"), test.sent)
			expect(t, c, "before")
			_, err := c.Read(make([]byte, 10))
			var breach interface{ PeerFault() }
			if !errors.As(err, &breach) {
				t.Fatalf("%v", err)
			}
			if _, again := c.Read(make([]byte, 10)); !errors.Is(again, err) {
				t.Errorf("then %v", again)
			}
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			b.closedWith(test.code)
		})
	}
}

func TestTheClosingHandshakeIsDoneFromBothSides(t *testing.T) {
	c, b := webSocket(t)
	b.send(frame(ws.OpClose, string(ws.NewCloseFrameBody(ws.StatusGoingAway, "bye"))))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := errors.Join(c.CloseWrite(), c.CloseWrite()); err != nil {
		t.Fatal(err)
	}
	b.closedWith(ws.StatusGoingAway)

	c, b = webSocket(t)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b.closedWith(ws.StatusNormalClosure)
	b.send(frame(ws.OpBinary, "on the way"), frame(ws.OpClose, string(ws.NewCloseFrameBody(ws.StatusNormalClosure, ""))))
	if got, err := readAll(t, c, 100); string(got) != "on the way" || !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPingsOfAClientThatDoesNotReadAreNotCollected(t *testing.T) {
	c, b := webSocket(t)
	for left := false; !left; { // until the socket is full
		_, left = c.TryWrite(make([]byte, 32<<10))
	}
	before := len(c.socket.out)
	const pings = 10_000
	done := make(chan error, 1)
	go func() {
		wire := bytes.Repeat(frame(ws.OpPing, strings.Repeat("x", 100)), pings)
		_, err := b.nc.Write(append(wire, frame(ws.OpBinary, "end")...))
		done <- err
	}()
	expect(t, c, "end")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if grown := len(c.socket.out) - before; grown > 1000 {
		t.Errorf("%d bytes wait for a client that does not read", grown)
	}
}

// A read that never waits heeds no deadline, and would go on for as long as they come.
func TestFramesWithoutDataDoNotKeepARead(t *testing.T) {
	for name, barren := range map[string][]byte{
		"empty": frame(ws.OpContinuation, "", unfinished),
		"pings": frame(ws.OpPing, ""),
	} {
		t.Run(name, func(t *testing.T) {
			c, b := webSocket(t)
			b.send(frame(ws.OpBinary, "before", unfinished))
			expect(t, c, "before")
			done := make(chan struct{})
			go func() {
				defer close(done)
				flood := bytes.Repeat(barren, barrenMax)
				for began := time.Now(); time.Since(began) < patience; {
					if _, err := b.nc.Write(flood); err != nil {
						return
					}
				}
				_ = b.nc.Close()
			}()
			_, err := c.Read(make([]byte, 10))
			var breach *FrameError
			if !errors.As(err, &breach) || breach.Code != ws.StatusPolicyViolation {
				t.Errorf("%v", err)
			}
			_ = c.Close()
			<-done
		})
	}
}

// The reader's pongs and the writer's frames share the way out.
func TestPongsComeBetweenFramesAndNotInThem(t *testing.T) {
	c, b := webSocket(t)
	const pings, size = 200, 3 << 20
	go func() {
		for i := range pings {
			_, _ = b.nc.Write(frame(ws.OpPing, fmt.Sprint(i)))
		}
		_, _ = b.nc.Write(frame(ws.OpBinary, "."))
	}()
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, size))
		written <- err
	}()
	go func() { _, _ = c.Read(make([]byte, 1)) }()
	for got := 0; got < size; {
		f := b.next()
		switch f.Header.OpCode {
		case ws.OpBinary:
			got += len(f.Payload)
		case ws.OpPong:
		default:
			t.Fatal(f.Header)
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func TestWhatComesRightBehindTheHandshakeIsNotLost(t *testing.T) {
	l := listen(t)
	accepted := webSockets(t, l, new(WebSocket))
	nc := l.dial(t)
	upgrade(t, nc, frame(ws.OpBinary, "early"), frame(ws.OpBinary, "bird")[:5])
	c := <-accepted
	expect(t, c, "early")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := c.Read(make([]byte, 10)); err == nil {
		t.Errorf("%d bytes of a frame whose head is not there", n)
	}
}

// Whatever the bytes, they decode as the library reads them frame by frame, and nothing panics.
func FuzzFrames(f *testing.F) {
	f.Add(frame(ws.OpBinary, "hello"), uint8(3))
	f.Add(bytes.Join([][]byte{frame(ws.OpBinary, "a", unfinished), frame(ws.OpPing, "b"), frame(ws.OpContinuation, "c")}, nil), uint8(1))
	f.Add(append(frame(ws.OpBinary, strings.Repeat("x", 300)), frame(ws.OpClose, "\x03\xe8")...), uint8(200))
	f.Add(frame(ws.OpText, "hello"), uint8(9))
	f.Fuzz(func(t *testing.T, wire []byte, size uint8) {
		if len(wire) > 4<<10 {
			return // more than the socket takes at once, perhaps
		}
		ours, client := socketPair(t)
		c, err := newConn(ours, &Listener{})
		if err != nil {
			t.Fatal(err)
		}
		c.frames = &frames{max: 1 << 20}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = client.Write(wire)
		_ = client.(*net.UnixConn).CloseWrite()
		got, err := readAll(t, c, int(size)+1)
		_ = client.Close()
		if err == nil || errors.Is(err, errAgain) || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("it ends with %v", err)
		}
		if want := reference(wire); !bytes.Equal(got, want) {
			t.Fatalf("%q, not %q", got, want)
		}
	})
}

// socketPair is two connected sockets that use up no ports.
func socketPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(file); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	return ends[0], ends[1]
}

// reference decodes with the library alone.
func reference(wire []byte) (stream []byte) {
	in := bytes.NewReader(wire)
	state := ws.StateServerSide
	for {
		h, err := ws.ReadHeader(in)
		if err != nil || ws.CheckHeader(h, state) != nil || h.Length > 1<<20 || h.OpCode == ws.OpText {
			return stream
		}
		payload := make([]byte, h.Length)
		n, _ := io.ReadFull(in, payload)
		payload = payload[:n]
		ws.Cipher(payload, h.Mask, 0)
		if h.OpCode.IsControl() {
			if n < int(h.Length) || h.OpCode == ws.OpClose {
				return stream
			}
			continue
		}
		stream = append(stream, payload...)
		state = ws.StateServerSide
		if !h.Fin {
			state = state.Set(ws.StateFragmented)
		}
	}
}
