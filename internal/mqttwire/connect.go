package mqttwire

import "encoding/binary"

// Connect is CONNECT. Its slices alias the frame's body.
//
// An empty client identifier without clean start is left to the server to
// answer: identifier rejected in 3.1.1 [MQTT311-3.1.3-8], an assigned identifier
// in MQTT 5.
type Connect struct {
	Version     Version
	CleanStart  bool // "clean session" in 3.1.1
	HasWill     bool
	HasUsername bool
	HasPassword bool
	KeepAlive   uint16 // seconds; 0 turns it off
	ClientID    []byte
	Username    []byte
	Password    []byte
	Will        Will
	Props       Properties
}

// Will is the message a server publishes in the client's name when the
// connection ends badly. Its delay is Props.WillDelay.
type Will struct {
	Retain  bool
	QoS     byte
	Topic   []byte
	Payload []byte
	Props   Properties
}

const (
	flagReserved   = 0x01
	flagCleanStart = 0x02
	flagWill       = 0x04
	maskWillQoS    = 0x18
	flagWillRetain = 0x20
	flagPassword   = 0x40
	flagUsername   = 0x80
)

// DecodeConnect reads
//
//	protocol name   "MQTT"
//	protocol level  4 or 5
//	connect flags   user, password, will retain, will QoS (2), will, clean, 0
//	keep alive      two bytes
//	properties      MQTT 5
//	client id, will properties (MQTT 5), will topic, will payload, user name,
//	password        as the flags say [MQTT-3.1.3-1]
//
// c.Version is set as soon as it is known, also when an error follows, so that
// a refusal can be sent in the client's version; it is 0 before that. A
// version this codec does not speak gives an *UnsupportedVersionError.
func DecodeConnect(f Frame, c *Connect) error {
	f.expect(TypeConnect)
	*c = Connect{}
	b := body{rest: f.Body}
	name := b.binary()
	level := b.uint8()
	if b.err != nil {
		return b.err
	}
	if err := checkProtocol(string(name), level); err != nil {
		return err
	}
	c.Version = Version(level)
	b.version = c.Version
	if f.overlong && c.Version == V5 {
		return errOverlong
	}
	flags := b.uint8()
	if err := checkConnectFlags(flags, c.Version); err != nil && b.err == nil {
		return err
	}
	c.KeepAlive = b.uint16()
	c.CleanStart = flags&flagCleanStart != 0
	b.properties(&c.Props, connectProperties, HasUser)
	checkAuth(&b, &c.Props)
	c.decodePayload(&b, flags)
	return b.end()
}

func checkProtocol(name string, level byte) error {
	switch {
	case name == "MQTT" && (level == byte(V311) || level == byte(V5)):
		return nil
	case name == "MQTT", name == "MQIsdp":
		return &UnsupportedVersionError{Protocol: name, Level: level} // [MQTT-3.1.2-2]
	default:
		return malformed("protocol name is not MQTT [MQTT-3.1.2-1]")
	}
}

func checkConnectFlags(flags byte, v Version) error {
	willQoS := flags & maskWillQoS
	switch {
	case flags&flagReserved != 0:
		return malformed("reserved connect flag is set [MQTT-3.1.2-3]")
	case willQoS == maskWillQoS:
		return malformed("will QoS 3 [MQTT-3.1.2-12]") // [MQTT311-3.1.2-14]
	case flags&flagWill == 0 && willQoS != 0:
		return malformed("will QoS without will flag [MQTT-3.1.2-11]")
	case flags&flagWill == 0 && flags&flagWillRetain != 0:
		return malformed("will retain without will flag [MQTT-3.1.2-13]") // [MQTT311-3.1.2-15]
	case v == V311 && flags&flagPassword != 0 && flags&flagUsername == 0:
		// MQTT 5 allows a password alone, for tokens (3.1.2.9).
		return malformed("password flag without user name flag [MQTT311-3.1.2-22]")
	}
	return nil
}

// checkAuth: data without a method cannot be understood (MQTT 5, 3.1.2.11.10).
func checkAuth(b *body, p *Properties) {
	if p.Has(HasAuthData) && !p.Has(HasAuthMethod) {
		b.fail(violation("authentication data without authentication method"))
	}
}

func (c *Connect) decodePayload(b *body, flags byte) {
	c.ClientID = b.string() // [MQTT-3.1.3-4]
	if flags&flagWill != 0 {
		c.HasWill = true
		c.Will.QoS = flags & maskWillQoS >> 3
		c.Will.Retain = flags&flagWillRetain != 0
		b.properties(&c.Will.Props, willProperties, HasUser)
		c.Will.Topic = b.topicName() // [MQTT-3.1.3-11]
		c.Will.Payload = b.binary()
	}
	if flags&flagUsername != 0 {
		c.HasUsername = true
		c.Username = b.string() // [MQTT-3.1.3-12]
	}
	if flags&flagPassword != 0 {
		c.HasPassword = true
		c.Password = b.binary()
	}
}

// AppendConnect encodes c in c.Version.
func AppendConnect(dst []byte, c *Connect) []byte {
	assert(c.Version == V311 || c.Version == V5, "CONNECT of an unknown version")
	flags := c.flags()
	err := checkConnectFlags(flags, c.Version)
	assert(err == nil, "CONNECT with flags that contradict each other")
	dst = appendHeader(dst, TypeConnect, 0, c.remaining())
	dst = appendString(dst, "MQTT")
	dst = append(dst, byte(c.Version), flags)
	dst = binary.BigEndian.AppendUint16(dst, c.KeepAlive)
	if c.Version == V5 {
		dst = c.Props.append(dst, connectProperties)
	}
	dst = appendBytes(dst, c.ClientID)
	if c.HasWill {
		if c.Version == V5 {
			dst = c.Will.Props.append(dst, willProperties)
		}
		dst = appendBytes(dst, c.Will.Topic)
		dst = appendBytes(dst, c.Will.Payload)
	}
	if c.HasUsername {
		dst = appendBytes(dst, c.Username)
	}
	if c.HasPassword {
		dst = appendBytes(dst, c.Password)
	}
	return dst
}

func (c *Connect) flags() byte {
	var flags byte
	set := func(on bool, flag byte) {
		if on {
			flags |= flag
		}
	}
	set(c.CleanStart, flagCleanStart)
	set(c.HasUsername, flagUsername)
	set(c.HasPassword, flagPassword)
	if c.HasWill {
		assert(c.Will.QoS <= 2, "will QoS over 2")
		flags |= flagWill | c.Will.QoS<<3
		set(c.Will.Retain, flagWillRetain)
	}
	return flags
}

func (c *Connect) remaining() int {
	n := 10 + 2 + len(c.ClientID)
	if c.Version == V5 {
		n += c.Props.sizeWithPrefix()
	}
	if c.HasWill {
		n += 2 + len(c.Will.Topic) + 2 + len(c.Will.Payload)
		if c.Version == V5 {
			n += c.Will.Props.sizeWithPrefix()
		}
	}
	if c.HasUsername {
		n += 2 + len(c.Username)
	}
	if c.HasPassword {
		n += 2 + len(c.Password)
	}
	return n
}
