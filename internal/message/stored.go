package message

// StoredSize is the length of topic and payload together of a stored form, without decoding it: the fold
// asks it of every message it keeps. A damaged form counts as 0.
func StoredSize(b []byte) int64 {
	d := decoder{rest: b}
	flags := d.byte()
	d.uvarint()
	if flags&flagExpires != 0 {
		d.uvarint() // zigzag, of the same length
	}
	topic := d.bytes()
	if flags&flagProperties != 0 {
		d.skipProperties()
	}
	if d.bad {
		return 0
	}
	return int64(len(topic) + len(d.rest))
}

func (d *decoder) skipProperties() {
	has := d.byte()
	for _, bit := range []byte{hasContentType, hasResponseTopic, hasCorrelation} {
		if has&bit != 0 {
			d.bytes()
		}
	}
	n := d.uvarint()
	for i := uint64(0); i < n && !d.bad; i++ {
		d.bytes()
		d.bytes()
	}
}

// StoredTopic is the topic of a stored form; it aliases b. False: b is damaged.
func StoredTopic(b []byte) ([]byte, bool) {
	d := decoder{rest: b}
	flags := d.byte()
	d.uvarint()
	if flags&flagExpires != 0 {
		d.uvarint()
	}
	topic := d.bytes()
	return topic, !d.bad
}
