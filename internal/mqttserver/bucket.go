package mqttserver

import "time"

// bucket is a token bucket that a second fills. It remembers one number: the moment, in nanoseconds of a monotonic
// clock, when all that was taken from it is paid for. The zero bucket is full.
type bucket struct{ paidAt int64 }

const bucketSize = int64(time.Second)

// cost is what n tokens take of a bucket that fills at rate tokens a second, in nanoseconds.
func cost(n, rate int64) int64 {
	const most = int64(time.Hour) / int64(time.Second) // of the slowest rate and the largest packet
	return min(n, most*rate) * int64(time.Second) / rate
}

// wait is how long it takes until that much may be taken; 0: it may be now. What costs more than the bucket holds
// needs a full one, and leaves a debt.
func (b *bucket) wait(now, cost int64) time.Duration {
	return time.Duration(max(0, max(b.paidAt, now)+min(cost, bucketSize)-now-bucketSize))
}

func (b *bucket) take(now, cost int64) { b.paidAt = max(b.paidAt, now) + cost }

// full: nothing of what was taken matters any more.
func (b *bucket) full(now int64) bool { return b.paidAt <= now }
