package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "emanet/e2e/harness"
)

// smallDisk mounts a tmpfs of its own until the end of the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	Need(t, dir, err)
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}

// fill takes all space that is left; the returned function gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Bavail != 0 {
		t.Fatalf("%d blocks are still free (%v)", fs.Bavail, err)
	}
	return func() {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
}

// publishUntilStalled publishes alternately to "a" and "b" until nothing is acknowledged any more, and gives how
// many have been, in order, on each.
func publishUntilStalled(t *testing.T, b *Broker, body string) (acked map[string]int) {
	t.Helper()
	acked = map[string]int{}
	c := Open(t, b.Addr(), Clean(5, Name("publisher")))
	const window = 32
	topics := []string{"a", "b"}
	sent, answered := 0, 0
	for {
		for ; sent-answered < window; sent++ {
			c.Send(Packet{Type: PUBLISH, QoS: 1, ID: uint16(sent%60_000 + 1), Topic: topics[sent%2],
				Payload: fmt.Appendf(nil, "%d %s", sent/2, body)})
		}
		p, err := c.TryRead(3 * time.Second)
		if err != nil || p.Type != PUBACK || p.Code >= 0x80 {
			t.Logf("%d messages were acknowledged; then %v, %v", answered, p, err)
			return acked
		}
		acked[topics[answered%2]]++
		answered++
		if answered > 200_000 {
			t.Fatal("the disk never became full")
		}
	}
}

// drain takes messages in order, from the given number on, and acknowledges them.
func drain(t *testing.T, c *Client, topic string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		p := c.Expect(PUBLISH)
		if n, _, _ := strings.Cut(string(p.Payload), " "); p.Topic != topic || n != fmt.Sprint(i) {
			t.Fatalf("waiting for %s %d, got %v", topic, i, p)
		}
		c.Ack(p)
	}
}

func TestAFullDiskStopsPublishesAndLosesNothing(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	disk := smallDisk(t, "160m")
	b := Prepare(t, t.TempDir(), "--journal-segments", "8", "--journal-segment-bytes", "1MiB", "--mqtt-max-queued", "1000000")
	b.KeepDataIn(filepath.Join(disk, "data"))
	b.Restart()
	for _, topic := range []string{"a", "b"} {
		c := Open(t, b.Addr(), Persistent(4, topic))
		c.Subscribe(To(topic, 1))
		c.Disconnect()
	}
	doomed := Open(t, b.Addr(), Persistent(4, "doomed"))
	doomed.Subscribe(To("doomed", 1))
	doomed.Disconnect()

	Eventually(t, "the reserve for a full disk is set aside", func() bool {
		_, err := os.Stat(filepath.Join(b.Data(), "ballast"))
		return err == nil
	})
	free := fill(t, disk)
	acked := publishUntilStalled(t, b, strings.Repeat("x", 500))
	select {
	case <-b.Exited():
		t.Fatalf("a full disk ended the broker:\n%s", b.Log())
	default:
	}

	// Consumers go on, and deletes work, with zero bytes free.
	drainer := Open(t, b.Addr(), Persistent(4, "b"))
	drain(t, drainer, "b", 0, acked["b"]/2)
	drainer.Drop()
	if c := Open(t, b.Addr(), Clean(4, "doomed")); c.Connack.SessionPresent {
		t.Error("the discarded session is said to be present")
	}

	// A start works with zero bytes free, and so does draining after it.
	fill(t, disk)
	b.Kill9()
	b.Restart()
	keeper := Open(t, b.Addr(), Persistent(4, "a"))
	drain(t, keeper, "a", 0, acked["a"]/4)
	keeper.Drop()
	if present(t, b, Persistent(4, "doomed")) {
		t.Error("the discarded session came back")
	}

	// After space is back a restart has everything that was acknowledged.
	free()
	b.Kill9()
	b.Restart()
	keeper = Open(t, b.Addr(), Persistent(4, "a"))
	first := keeper.Expect(PUBLISH)
	n, _, _ := strings.Cut(string(first.Payload), " ")
	var from int
	if _, err := fmt.Sscan(n, &from); err != nil || from > acked["a"]/4 {
		t.Fatalf("%d messages had been acknowledged by the subscriber, and the first one back is %v", acked["a"]/4, first)
	}
	keeper.Ack(first)
	drain(t, keeper, "a", from+1, acked["a"])

	Open(t, b.Addr(), Clean(4, "again")).PublishPacket(Packet{Topic: "c", Payload: []byte("x"), QoS: 1, Retain: true})
}

func TestAFailedFlushAnswersNobodyAndEndsTheProcess(t *testing.T) { // [MQTT311-4.8.0-2]
	OnlyEmanet(t)
	t.Parallel()
	b := Start(t)
	keeper := Open(t, b.Addr(), Persistent(4, "keeper"))
	keeper.Subscribe(To("t", 1))
	keeper.Disconnect()
	p := Open(t, b.Addr(), Clean(4, "p"))
	p.Publish("t", "flushed", 1)
	FailFlushes(t, b)
	p.Send(Packet{Type: PUBLISH, QoS: 1, ID: 77, Topic: "t", Payload: []byte("not flushed")})
	for {
		answer, err := p.TryRead(Patience)
		if err != nil {
			break
		}
		t.Errorf("a message whose flush failed was answered by %v", answer)
	}
	if code := b.Ended(); code <= 0 {
		t.Errorf("the process ended with code %d:\n%s", code, b.Log())
	}
	b.Restart()
	keeper = Open(t, b.Addr(), Persistent(4, "keeper"))
	keeper.Ack(keeper.ExpectPublish("t", "flushed"))
	Open(t, b.Addr(), Clean(4, "after")).Publish("t", "sentinel", 1)
	next := keeper.Expect(PUBLISH)
	if string(next.Payload) == "not flushed" { // its bytes may have survived: that is why it was not refused either
		next = keeper.Expect(PUBLISH)
	}
	if string(next.Payload) != "sentinel" {
		t.Errorf("waiting for the sentinel, got %v", next)
	}
}
