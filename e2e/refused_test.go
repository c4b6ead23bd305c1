package e2e

import (
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// What is not supported is refused by name, never accepted and ignored.

func TestTopicAliasesBeyondWhatConnackAllowsAreRefused(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	b := Shared(t)
	for _, alias := range []uint32{0, 33, 65_535} {
		c := Open(t, b.Addr(), Clean(5, Name("c")))
		if most, _ := c.Connack.Props.Find(TopicAliasMaximum); most.Int != 32 {
			t.Fatalf("CONNACK allows %d aliases", most.Int)
		}
		c.Send(Packet{Type: PUBLISH, Topic: "t", Payload: []byte("x"), Props: Props{Num(TopicAlias, alias)}})
		if last := c.ExpectClosed(); last.Code != 0x94 {
			t.Errorf("topic alias %d ended with %v, not 0x94 [MQTT-3.3.2-8] [MQTT-3.3.2-9]", alias, last)
		}
	}
}

func TestMQTT31IsRefusedWithCodeOne(t *testing.T) {
	OnlyEmanet(t) // others still speak it
	t.Parallel()
	for _, version := range []byte{3, 6} {
		answerIn, want := byte(4), byte(1)
		if version > 5 {
			answerIn, want = 5, 0x84 // whoever knows more than 5 knows 5
		}
		c := Dial(t, Shared(t).Addr(), answerIn)
		c.Write(Connect{Version: version, ClientID: "old", Clean: true}.Bytes())
		if last := c.ExpectClosed(); last.Type != CONNACK || last.Code != want {
			t.Errorf("version %d got %v, not code %#x [MQTT-3.1.2-2] [MQTT311-3.1.2-2]", version, last, want)
		}
	}
}

func TestASegmentSizeOtherThanTheDirectorysIsAnErrorOfUsage(t *testing.T) {
	OnlyEmanet(t)
	t.Parallel()
	root := t.TempDir()
	b := StartIn(t, root, "--journal-segments", "4", "--journal-segment-bytes", "256KiB")
	b.Terminate()
	b = Prepare(t, root, "--journal-segments", "4", "--journal-segment-bytes", "512KiB")
	if err := b.TryRestart(); err == nil {
		t.Fatal("the broker starts on a journal of another segment size")
	}
	if code := b.Ended(); code != 2 || !strings.Contains(b.Log(), "--journal-segment-bytes") {
		t.Errorf("exit %d, and the log says:\n%s", code, b.Log())
	}
}
