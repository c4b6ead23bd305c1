package mqttserver

import "time"

// publishPace is how fast a client has published lately. It is the reader's.
type publishPace struct{ messages, bytes bucket }

// paceLook is how soon a waiting reader heeds rates that a reload has changed.
const paceLook = time.Second

// paceEarn is the least that a reader waits, so that what a fast client sends above its rate is taken in handfuls: a
// timer, a wake and a batch of settlements for each message would cost more than the message.
const paceEarn = 10 * time.Millisecond

// awaitPace has the reader wait until a PUBLISH of size bytes is within the client's rates. To read later loses
// nothing, and the client is slowed by its own socket. It is one stream: whatever the client sends after that
// PUBLISH waits as well, acknowledgements included. What it is owed goes out meanwhile.
func (c *conn) awaitPace(size int) error {
	waited := false
	for {
		opt := c.server.live.Load()
		if opt.PublishRate <= 0 && opt.PublishBytesRate <= 0 {
			return nil
		}
		now := c.server.admission.now()
		left, hit := c.pace.wait(now, size, opt)
		if left == 0 {
			return nil
		}
		if !waited { // what this burst has done must not wait as well
			waited = true
			c.server.stats.Hits[hit].Add(1)
			c.wakeRecipients()
			if err := c.settle(); err != nil {
				return err
			}
		}
		if err := c.out.sleep(min(max(left, paceEarn), paceLook)); err != nil {
			return err
		}
		c.alive() // it was not the client's silence
	}
}

// wait takes the message from both buckets, or says how long it has to wait for which.
func (p *publishPace) wait(now int64, size int, opt *Options) (time.Duration, Hit) {
	var one, all int64
	if opt.PublishRate > 0 {
		one = cost(1, int64(opt.PublishRate))
	}
	if opt.PublishBytesRate > 0 {
		all = cost(int64(size), opt.PublishBytesRate)
	}
	if left := p.messages.wait(now, one); left > 0 && one > 0 {
		return left, HitPublishRate
	}
	if left := p.bytes.wait(now, all); left > 0 && all > 0 {
		return left, HitPublishBytesRate
	}
	p.messages.take(now, one)
	p.bytes.take(now, all)
	return 0, 0
}

// sleep has the reader wait for d, or until the connection ends.
func (o *output) sleep(d time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	over := false
	wake := time.AfterFunc(d, func() {
		o.mu.Lock()
		over = true
		o.room.Broadcast()
		o.mu.Unlock()
	})
	defer wake.Stop()
	for !over && !o.isEnded {
		o.room.Wait()
	}
	if o.isEnded {
		return errEnd
	}
	return nil
}
