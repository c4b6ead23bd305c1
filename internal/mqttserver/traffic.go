package mqttserver

import (
	"sync/atomic"

	"emanet/internal/mqttwire"
)

// tally counts what one goroutine has had of a connection since it was last added up, so that a packet costs no
// atomic operation.
type tally struct {
	packets      [16]uint32 // by type
	payload      uint64     // bytes, of PUBLISH
	acknowledged uint64
}

func (t *tally) publish(payload []byte) { t.payload += uint64(len(payload)) }

// flow adds up the tallies of one direction.
type flow struct {
	packets [16]atomic.Uint64
	bytes   atomic.Uint64
	payload atomic.Uint64
}

func (f *flow) add(t *tally) {
	for i, n := range t.packets {
		if n > 0 {
			f.packets[i].Add(uint64(n))
		}
	}
	if t.payload > 0 {
		f.payload.Add(t.payload)
	}
}

// trafficShard is what some of the connections add to. Its size keeps what one of them writes out of the cache
// lines of another.
type trafficShard struct {
	in, out      flow
	acknowledged atomic.Uint64
	_            [128 - (2*18+1)*8%128]byte
}

// trafficShards is more than there are processors to fight over one.
const trafficShards = 16

// Flow is what went one way since the start.
type Flow struct {
	Packets [16]uint64 // by their type's number
	Bytes   uint64
	Payload uint64 // bytes of the payloads of PUBLISH
}

func (f *Flow) add(from *flow) {
	for i := range f.Packets {
		f.Packets[i] += from.packets[i].Load()
	}
	f.Bytes += from.bytes.Load()
	f.Payload += from.payload.Load()
}

// All is how many packets there were.
func (f *Flow) All() (n uint64) {
	for _, of := range f.Packets {
		n += of
	}
	return n
}

// Of is how many packets there were of a type.
func (f *Flow) of(t mqttwire.PacketType) uint64 { return f.Packets[t] }

// Connects, Publishes are CONNECT and PUBLISH packets.
func (f *Flow) Connects() uint64  { return f.of(mqttwire.TypeConnect) }
func (f *Flow) Publishes() uint64 { return f.of(mqttwire.TypePublish) }

// Each visits the packet types, under the names of the specification.
func (f *Flow) Each(visit func(name string, n uint64)) {
	for t := mqttwire.TypeConnect; t <= mqttwire.TypeAuth; t++ {
		visit(t.String(), f.of(t))
	}
}

// Traffic is what went over all connections since the start.
type Traffic struct {
	In, Out      Flow
	Acknowledged uint64 // PUBACK and PUBREC sent with success
}

// Traffic adds up; it is not for a hot path.
func (s *Server) Traffic() Traffic {
	var t Traffic
	for i := range s.traffic {
		shard := &s.traffic[i]
		t.In.add(&shard.in)
		t.Out.add(&shard.out)
		t.Acknowledged += shard.acknowledged.Load()
	}
	return t
}

// shard is the next connection's.
func (s *Server) shard() *trafficShard { return &s.traffic[s.shardNext.Add(1)%trafficShards] }

// endBurst counts what the reader has had.
func (c *conn) endBurst() {
	t := &c.scratch.tally
	c.traffic.in.add(t)
	c.publishes += uint64(t.packets[mqttwire.TypePublish])
	*t = tally{}
	scratches.Put(c.scratch)
	c.scratch = nil
}

// sent counts n bytes written, with the packets in them.
func (o *output) sent(n int64) {
	shard, t := o.conn.traffic, &o.pad.tally
	shard.out.bytes.Add(uint64(n))
	shard.out.add(t)
	if t.acknowledged > 0 {
		shard.acknowledged.Add(t.acknowledged)
	}
	o.publishes += uint64(t.packets[mqttwire.TypePublish])
	*t = tally{}
}
