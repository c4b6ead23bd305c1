package broker

import "fmt"

// takes waits for n deliveries without acknowledging them.
func (c *conn) takes(n int) (got []string, keys []uint64, again []bool) {
	c.f.Helper()
	c.f.eventually(fmt.Sprint(n, " deliveries"), func() bool {
		for _, d := range c.take() {
			got = append(got, show(d.Message, d.Attr, d.Tag))
			keys = append(keys, d.Key)
			again = append(again, d.Redelivered)
		}
		return len(got) >= n
	})
	c.f.equal("deliveries", len(got), n)
	return got, keys, again
}

func (c *conn) settle(keys ...uint64) {
	c.f.Helper()
	if err := c.Settle(keys); err != nil {
		c.f.Fatal(err)
	}
}

// idle waits until the groups have handed out what they can.
func (f *fixture) idle() {
	f.Helper()
	f.settled()
	f.idleNow()
}

// idleNow is idle for what waits for no flush.
func (f *fixture) idleNow() {
	f.Helper()
	f.eventually("the groups to rest", func() bool {
		for _, g := range f.groups.all() {
			g.pump.mu.Lock()
			running := g.pump.running
			g.pump.mu.Unlock()
			if running {
				return false
			}
		}
		return true
	})
}

// awaitGroups waits until so many groups are on disk, or in memory.
func (f *fixture) awaitGroups(n int) {
	f.Helper()
	f.eventually("groups to go", func() bool {
		b, err := f.control(0)
		if err != nil {
			f.Fatal(err)
		}
		defer b.Abort()
		return len(f.groups.byKey) == n
	})
}

func (f *fixture) members(n int, qos uint8, edit ...func(*Connect)) (all []*conn) {
	for i := range n {
		c := f.connect(fmt.Sprint("member", i), edit...)
		c.subscribe(to("$share/g/a", qos))
		all = append(all, c)
	}
	return all
}

func (f *fixture) burst(n int, qos uint8) {
	f.Helper()
	pub := f.connect("pub", clean)
	var last Outcome
	for i := range n {
		last = pub.send("a", fmt.Sprint(i+1), qos)
	}
	f.flushed(last.LSN)
	f.idle()
}
