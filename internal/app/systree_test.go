package app

import (
	"math"
	"strconv"
	"testing"
	"time"

	"emanet/internal/broker"
)

// texts are the announced topics, without what they all begin with.
func texts(values []broker.Announcement) map[string]string {
	out := make(map[string]string)
	for _, v := range values {
		out[v.Topic[len("$SYS/broker/"):]] = v.Payload
	}
	return out
}

func TestTheSysTopicsSayWhatTheFiguresAre(t *testing.T) {
	t.Parallel()
	f := sysFigures{
		gauges:   broker.Gauges{Sessions: 5, Away: 2, Subscriptions: 7, Retained: 11, Pending: 12, GroupsPending: 1, Groups: 2, GroupMembers: 3, Bytes: 1700},
		expired:  19,
		received: sysFlow{packets: 23, publishes: 22, bytes: 2900, payload: 310},
		sent:     sysFlow{packets: 37, publishes: 36, bytes: 4100, payload: 430},
		dropped:  47, heap: 5300, uptime: 90 * time.Second,
	}
	tree := newSysTree(func() sysFigures { return f }, 10*time.Second)
	got := texts(tree.changed())
	for name, want := range map[string]string{
		"version": "emanet version devel", "uptime": "90 seconds", "emanet/health": "ok",
		"clients/total": "5", "clients/connected": "3", "clients/active": "3", "clients/disconnected": "2", "clients/inactive": "2",
		"clients/maximum": "3", "clients/expired": "19",
		"messages/received": "23", "messages/sent": "37", "publish/messages/received": "22", "publish/messages/sent": "36",
		"publish/messages/dropped": "47", "bytes/received": "2900", "bytes/sent": "4100",
		"publish/bytes/received": "310", "publish/bytes/sent": "430",
		"subscriptions/count": "7", "shared_subscriptions/count": "3", "retained messages/count": "11", "messages/stored": "24",
		"store/messages/count": "24", "store/messages/bytes": "1700", "heap/current": "5300", "heap/maximum": "5300",
		"load/messages/received/1min": "0.00", // what was before the first look is no load
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	tree.told()
	f.gauges.Away, f.alarms = 4, []string{"store: disk low", "users: unreadable"}
	got = texts(tree.changed())
	if got["clients/connected"] != "1" || got["clients/maximum"] != "" || got["emanet/health"] != "store: disk low; users: unreadable" {
		t.Errorf("later: %v", got)
	}
}

func TestOnlyWhatHasChangedIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	var f sysFigures
	tree := newSysTree(func() sysFigures { return f }, 10*time.Second)
	all := len(tree.changed())
	if again := len(tree.changed()); again != all {
		t.Errorf("%d topics are announced after %d could not be", again, all)
	}
	tree.told()
	f.uptime += 10 * time.Second
	f.expired++
	if got := texts(tree.changed()); len(got) != 2 || got["uptime"] != "10 seconds" || got["clients/expired"] != "1" {
		t.Errorf("announced again: %v", got)
	}
}

func TestALoadForgetsByItsSpan(t *testing.T) {
	t.Parallel()
	var f sysFigures
	const interval = 10 * time.Second
	tree := newSysTree(func() sysFigures { return f }, interval)
	tree.changed()
	// 50 publishes each 10 seconds, for five minutes: 300 a minute.
	const rounds = 30
	for range rounds {
		f.received.publishes += 50
		tree.changed()
	}
	for _, minutes := range []float64{1, 5, 15} {
		// Such an average of a steady rate that began at 0 is rate * (1 - e^(-time/span)).
		want := 300 * (1 - math.Exp(-rounds*interval.Minutes()/minutes))
		name := "$SYS/broker/load/publish/received/" + strconv.Itoa(int(minutes)) + "min"
		got, err := strconv.ParseFloat(tree.now[name], 64)
		if err != nil || math.Abs(got-want) > 0.01 {
			t.Errorf("%s: %q, want %.2f", name, tree.now[name], want)
		}
	}
}
