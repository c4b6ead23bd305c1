package mqttserver

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"emanet/internal/transport"
	"emanet/internal/transport/certtest"
)

// narrow is a listener whose connections hold little on their way out.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	nc, err := n.Listener.Accept()
	if err == nil {
		err = nc.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return nc, err
}

// dialTLS opens a connection to a listener over TLS that the server has besides its own.
func (r *rig) dialTLS() *peer {
	r.Helper()
	a, dir := certtest.New(r), r.TempDir()
	var files transport.Files
	files.Cert, files.Key = a.Issue("localhost").Files(dir)
	certificates, err := transport.LoadCertificates(files)
	if err != nil {
		r.Fatal(err)
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	served := make(chan error, 1)
	l := &transport.Listener{Listener: narrow{socket}, Certificates: certificates}
	go func() { served <- r.server.Serve(l) }()
	r.Cleanup(func() {
		_ = l.Close()
		if err := <-served; err != nil && !errors.Is(err, net.ErrClosed) {
			r.Error(err)
		}
	})
	nc, err := net.Dial("tcp", socket.Addr().String())
	if err != nil {
		r.Fatal(err)
	}
	if err := nc.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		r.Fatal(err)
	}
	return r.peer(tls.Client(nc, &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}))
}

// What leaves on the goroutine of whoever flushed may not all fit into the socket; the rest must come behind it and
// before all else.
func TestAcknowledgementsOverTLSKeepTheirOrderWhenTheClientReadsLate(t *testing.T) {
	r := start(t)
	keeper := r.connect(v311("keeper")) // for whom acknowledgements wait for a flush, and nobody else does
	keeper.subscribe(4, "kept", 1)
	keeper.send(disconnect)
	keeper.closed()
	p := r.dialTLS()
	p.greet(v311live("late"))
	const rounds, publishes = 2, 4000 // whose acknowledgements are more than the sockets hold
	id := uint16(0)
	for round := range rounds {
		release := r.holdFlushes()
		var packets []byte
		for range publishes {
			id++
			packets = append(packets, pub311(1, id, "kept", "x")...)
		}
		p.send(packets)
		all := uint64((round + 1) * publishes)
		r.eventually("all publishes", func() bool { return r.server.Traffic().In.Packets[3] == all })
		release()
	}
	in := io.Reader(p.nc)
	if p.in != nil {
		in = p.in
	}
	_ = p.nc.SetReadDeadline(time.Now().Add(patience))
	ack := make([]byte, 4)
	for id := uint16(1); id <= rounds*publishes; id++ {
		if _, err := io.ReadFull(in, ack); err != nil || ack[0] != 0x40 || binary.BigEndian.Uint16(ack[2:]) != id {
			t.Fatalf("% x for %d: %v", ack, id, err)
		}
	}
}
