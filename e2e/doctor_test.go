package e2e

import (
	"os/exec"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// The doctor may come while the broker works: it measures beside it, and disturbs nothing.
func TestTheDoctorLooksAtARunningBroker(t *testing.T) {
	t.Parallel()
	OnlyEmanet(t)
	b := Start(t)
	sub := Open(t, b.Addr(), Persistent(4, "sub"))
	sub.Subscribe(To("t", 1))
	sub.Disconnect()
	pub := Open(t, b.Addr(), Clean(4, "pub"))
	pub.Publish("t", "before", 1)
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "doctor", b.Data()).CombinedOutput()
	for _, want := range []string{"a broker runs on it (process ", "in the median", "this emanet knows up to"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("emanet doctor: %v, no %q in\n%s", err, want, out)
		}
	}
	pub.Publish("t", "after", 1)
	b.Kill9()
	b.Restart()
	sub = Open(t, b.Addr(), Persistent(4, "sub"))
	sub.Ack(sub.ExpectPublish("t", "before"))
	sub.Ack(sub.ExpectPublish("t", "after"))
	b.Terminate()
	if out, err := exec.Command(binary, "check", b.Data()).CombinedOutput(); err != nil {
		t.Errorf("emanet check: %v\n%s", err, out)
	}
}
