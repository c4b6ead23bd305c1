package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"emanet/internal/config"
	"emanet/internal/store"
)

// once runs the whole broker, has use do what it likes with it, and stops it in good order.
func once(cfg config.Serve, log io.Writer, use func(mqtt string) error) error {
	host := testHost(log)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	user := Part{
		Name:  "user",
		Start: func(context.Context) error { defer cancel(); return use(host.listeners[3].(string)) },
		Stop:  func(context.Context) error { return nil },
	}
	return run(ctx, host, append(parts(cfg, host), user), time.Now())
}

// talk sends the packets of an MQTT 3.1.1 client with a persistent session, and reads until it has got want.
func talk(address, id string, packets []byte, want string) error {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }()
	if err := nc.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	connect := fmt.Sprintf("\x10%c\x00\x04MQTT\x04\x00\x00\x00\x00%c%s", 12+len(id), len(id), id)
	if _, err := nc.Write(append([]byte(connect), packets...)); err != nil {
		return err
	}
	var got []byte
	for !bytes.Contains(got, []byte(want)) {
		var buf [512]byte
		n, err := nc.Read(buf[:])
		if err != nil {
			return fmt.Errorf("no %q in %q: %w", want, got, err)
		}
		got = append(got, buf[:n]...)
	}
	return nil
}

func TestADamagedJournalIsRefusedAndSalvagedWhenAskedFor(t *testing.T) {
	t.Parallel()
	cfg := smallBroker(t)
	// Each answer is waited for, so that each message is a group of its own in the journal.
	err := once(cfg, io.Discard, func(mqtt string) error {
		errs := []error{talk(mqtt, "keeper", []byte("\x82\x06\x00\x01\x00\x01t\x01"), "\x90\x03\x00\x01\x01")}
		for i := range byte(5) {
			publish := fmt.Sprintf("\x32\x0e\x00\x01t\x00%cmessage %d", i+1, i)
			errs = append(errs, talk(mqtt, "publisher", []byte(publish), "\x40\x02\x00"+string(rune(i+1))))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(cfg.Data, "journal", "0000.seg")
	image, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(image, []byte("message 2"))
	if at < 0 {
		t.Fatal("the message is not in the journal")
	}
	image[at] ^= 1
	if err := os.WriteFile(segment, image, 0o600); err != nil {
		t.Fatal(err)
	}

	err = once(cfg, io.Discard, func(string) error { return errors.New("it has started") })
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "0000.seg") || !strings.Contains(err.Error(), "--salvage") {
		t.Fatalf("a damaged journal gets %v", err)
	}

	cfg.Salvage = true
	var log bytes.Buffer
	err = once(cfg, &log, func(mqtt string) error {
		// All of them: they were folded at the clean stop.
		return talk(mqtt, "keeper", nil, "message 4")
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	for _, want := range []string{"journal records are lost", "0000.seg", "salvage"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &log)
		}
	}
	if aside, err := os.ReadDir(filepath.Join(cfg.Data, "journal", "salvage")); err != nil || len(aside) == 0 {
		t.Errorf("nothing was set aside: %v", err)
	}
	cfg.Salvage = false
	if err := once(cfg, io.Discard, func(string) error { return nil }); err != nil {
		t.Errorf("after the salvage: %v", err)
	}
}
