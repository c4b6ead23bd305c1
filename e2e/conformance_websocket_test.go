package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	. "emanet/e2e/harness"
)

// overWebSocket opens a WebSocket to the shared broker and connects as a client of MQTT. status is that of the answer.
func overWebSocket(t *testing.T, version byte, subprotocols ...string) (conn *websocket.Conn, status int) {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: subprotocols, HandshakeTimeout: Patience}
	conn, res, err := dialer.Dial(Shared(t).OverWebSocket().Addr(), nil)
	if res != nil {
		status = res.StatusCode
		res.Body.Close()
	}
	if err != nil {
		return nil, status
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(Patience)); err != nil {
		t.Fatal(err)
	}
	if err := conn.WriteMessage(websocket.BinaryMessage, Clean(version, Name("ws")).Bytes()); err != nil {
		t.Fatal(err)
	}
	return conn, status
}

func TestOverWebSocketPacketsComeInBinaryFrames(t *testing.T) { // [MQTT-6.0.0-1] [MQTT311-6.0.0-1]
	OnlyEmanet(t)
	t.Parallel()
	for _, version := range []byte{4, 5} {
		conn, status := overWebSocket(t, version, "mqtt")
		if conn == nil {
			t.Fatalf("status %d", status)
		}
		if kind, b, err := conn.ReadMessage(); kind != websocket.BinaryMessage || err != nil || b[0] != CONNACK<<4 {
			t.Fatalf("CONNACK came as %d %x, %v", kind, b, err)
		}
		err := conn.WriteMessage(websocket.TextMessage, []byte{0x30, 3, 0, 1, 'a'})
		for err == nil {
			_, _, err = conn.ReadMessage()
		}
		var closed *websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != websocket.CloseUnsupportedData {
			t.Errorf("a text frame ended the connection with %v", err)
		}
	}
}

func TestOverWebSocketTheSubprotocolIsMQTT(t *testing.T) { // [MQTT-6.0.0-4] [MQTT311-6.0.0-4]
	OnlyEmanet(t)
	t.Parallel()
	for _, offered := range [][]string{{"mqtt"}, {"chat", "mqtt"}, {"mqttv3.1", "mqtt", "x"}} {
		conn, status := overWebSocket(t, 4, offered...)
		if conn == nil {
			t.Fatalf("status %d to who offers %q", status, offered)
		}
		if got := conn.Subprotocol(); got != "mqtt" {
			t.Errorf("of %q the server selects %q", offered, got)
		}
	}
	if conn, status := overWebSocket(t, 4, "chat"); conn != nil || status < 400 {
		t.Errorf("a client that does not offer mqtt was answered with %d [MQTT-6.0.0-3] [MQTT311-6.0.0-3]", status)
	}
}

func TestOverWebSocketFramesAndPacketsNeedNotBeginTogether(t *testing.T) { // [MQTT-6.0.0-2] [MQTT311-6.0.0-2]
	OnlyEmanet(t)
	t.Parallel()
	for _, version := range []byte{4, 5} {
		b, topic := Shared(t).OverWebSocket(), Name("topic")
		s := Open(t, b.Addr(), Clean(version, Name("s"))) // its client cuts every write at random
		s.Subscribe(To(topic, 1))
		var all []byte
		for i := range 200 {
			all = append(all, Packet{Type: PUBLISH, QoS: 1, ID: uint16(i + 1), Topic: topic, Payload: make([]byte, i)}.Bytes(version)...)
		}
		s.Write(all) // frames with several packets, and packets in several frames
		for acks, messages := 0, 0; acks < 200 || messages < 200; {
			switch p := s.Read(); p.Type {
			case PUBACK:
				acks++
			case PUBLISH:
				if len(p.Payload) != messages {
					t.Fatalf("waiting for %d bytes, got %v", messages, p)
				}
				messages++
				s.Ack(p)
			}
		}
	}
}
