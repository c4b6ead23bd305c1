package app

import (
	"fmt"
	"math"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"emanet/internal/broker"
)

// sysTree turns figures into the topics below $SYS/broker: the names that users of Mosquitto know, with texts of the
// same form (its manual page mosquitto(8) tells them). Only what has changed is announced.
type sysTree struct {
	figures   func() sysFigures
	interval  time.Duration
	last, now map[string]string // by topic: as announced, and as to be
	loads     map[string]*sysLoad
	maximum   int // clients connected
	heap      uint64
}

func newSysTree(figures func() sysFigures, interval time.Duration) *sysTree {
	return &sysTree{figures: figures, interval: interval, last: make(map[string]string), loads: make(map[string]*sysLoad)}
}

// changed looks at the figures and returns the topics whose text is another one.
func (t *sysTree) changed() []broker.Announcement {
	t.now = make(map[string]string, len(t.last))
	f := t.figures()
	t.set("version", "emanet version "+version)
	t.set("uptime", strconv.FormatInt(int64(f.uptime/time.Second), 10)+" seconds")
	t.clients(&f)
	t.traffic(&f)
	t.kept(&f)
	health := "ok"
	if len(f.alarms) > 0 {
		health = strings.Join(f.alarms, "; ")
	}
	t.set("emanet/health", health)

	var out []broker.Announcement
	for topic, text := range t.now {
		if t.last[topic] != text {
			out = append(out, broker.Announcement{Topic: topic, Payload: text})
		}
	}
	return out
}

// told notes that what changed returned has been announced.
func (t *sysTree) told() { t.last = t.now }

func (t *sysTree) set(name, text string) { t.now["$SYS/broker/"+name] = text }

func (t *sysTree) number(name string, n uint64) { t.set(name, strconv.FormatUint(n, 10)) }

func (t *sysTree) clients(f *sysFigures) {
	connected := f.gauges.Sessions - f.gauges.Away
	t.maximum = max(t.maximum, connected)
	t.number("clients/total", uint64(f.gauges.Sessions))
	t.number("clients/maximum", uint64(t.maximum))
	t.number("clients/expired", f.expired)
	for _, name := range []string{"connected", "active"} { // the second is the older name
		t.number("clients/"+name, uint64(connected))
	}
	for _, name := range []string{"disconnected", "inactive"} {
		t.number("clients/"+name, uint64(f.gauges.Away))
	}
	t.load("connections", f.connects)
	t.load("sockets", f.sockets)
}

func (t *sysTree) traffic(f *sysFigures) {
	for _, way := range []struct {
		name string
		flow *sysFlow
	}{{"received", &f.received}, {"sent", &f.sent}} {
		t.number("messages/"+way.name, way.flow.packets)
		t.number("publish/messages/"+way.name, way.flow.publishes)
		t.number("bytes/"+way.name, way.flow.bytes)
		t.number("publish/bytes/"+way.name, way.flow.payload)
		t.load("messages/"+way.name, way.flow.packets)
		t.load("publish/"+way.name, way.flow.publishes)
		t.load("bytes/"+way.name, way.flow.bytes)
	}
	t.number("publish/messages/dropped", f.dropped)
	t.load("publish/dropped", f.dropped)
}

func (t *sysTree) kept(f *sysFigures) {
	g := &f.gauges
	t.number("subscriptions/count", uint64(g.Subscriptions))
	t.number("shared_subscriptions/count", uint64(g.GroupMembers))
	t.number("retained messages/count", uint64(g.Retained))
	stored := g.Pending + g.GroupsPending + uint64(g.Retained)
	t.number("messages/stored", stored)
	t.number("store/messages/count", stored)
	t.number("store/messages/bytes", uint64(g.Bytes))
	t.heap = max(t.heap, f.heap)
	t.number("heap/current", f.heap)
	t.number("heap/maximum", t.heap)
}

// sysLoad is how fast a counter grows, a minute, as averages that forget over 1, 5 and 15 minutes.
type sysLoad struct {
	count    uint64
	averages [3]float64
}

var sysLoadMinutes = [3]float64{1, 5, 15}

// load moves the averages of a counter on by an interval.
func (t *sysTree) load(name string, count uint64) {
	l := t.loads[name]
	if l == nil {
		l = &sysLoad{count: count}
		t.loads[name] = l
	}
	minutes := t.interval.Minutes()
	rate := float64(count-l.count) / minutes
	l.count = count
	for i, span := range sysLoadMinutes {
		l.averages[i] = rate + math.Exp(-minutes/span)*(l.averages[i]-rate)
		t.set(fmt.Sprintf("load/%s/%gmin", name, span), strconv.FormatFloat(l.averages[i], 'f', 2, 64))
	}
}

// heapBytes is what live and not yet collected objects occupy.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0 // a Go release without it
	}
	return sample[0].Value.Uint64()
}
