package mqttserver

import (
	"errors"
	"math"
	"os"
	"time"
	"unicode/utf8"

	"emanet/internal/broker"
	"emanet/internal/message"
	"emanet/internal/mqttwire"
	"emanet/internal/store"
	"emanet/internal/topic"
)

// handshake reads CONNECT, attaches the session and queues CONNACK. Before it has succeeded there is no
// session and nothing to clean up.
func (c *conn) handshake() error {
	deadline := time.Now().Add(c.server.live.Load().ConnectTimeout)
	if err := c.setReadDeadline(deadline); err != nil {
		return err
	}
	if err := c.prepare(deadline); err != nil {
		return err
	}
	f, n, err := c.readConnect()
	c.server.admission.spoke(c)
	if err != nil {
		return err
	}
	c.traffic.in.packets[f.Type&15].Add(1)
	f, n = c.detachConnect(f, n)
	var want mqttwire.Connect
	err = mqttwire.DecodeConnect(f, &want)
	c.version = want.Version
	if want.Props.Has(mqttwire.HasMaximumPacketSize) { // before any answer
		c.maxOut = want.Props.MaximumPacketSize
	}
	c.terse = want.Props.Has(mqttwire.HasRequestProblemInfo) && want.Props.RequestProblemInfo == 0
	if err != nil {
		return c.refuseConnect(err)
	}
	if err = c.server.admission.mayConnect(c); err == nil {
		err = c.accept(&want)
	}
	var no *refusal
	if errors.As(err, &no) {
		return c.refuseConnect(err)
	}
	if err != nil {
		return err
	}
	c.in.consume(n)
	deadline = time.Time{}
	c.alive()
	if c.idle > 0 {
		deadline = time.Now().Add(c.idle)
	}
	return c.setReadDeadline(deadline)
}

// readConnect waits for the first packet; it must be CONNECT and come in time ([MQTT-3.1.0-1]).
func (c *conn) readConnect() (mqttwire.Frame, int, error) {
	most := c.server.live.Load().MaxConnect
	for {
		f, n, err := mqttwire.Next(c.in.bytes(), 0, most)
		need := 0
		if err == nil && n == 0 {
			need, err = mqttwire.Size(c.in.bytes(), 0, most)
		}
		if errors.Is(err, mqttwire.PacketTooLarge) { // whose version nobody knows, and so no answer
			c.server.stats.Hits[HitConnect].Add(1)
			c.end(ending{bad: true, cause: "CONNECT is larger than the server takes"})
			return f, 0, errEnd
		}
		if err != nil || n > 0 {
			return f, n, err
		}
		got, err := c.in.fill(need)
		c.traffic.in.bytes.Add(uint64(got))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if _, ended := c.out.ended(); ended {
				return f, 0, errEnd
			}
			c.server.stats.Hits[HitConnectTimeout].Add(1)
			c.end(ending{bad: true, late: true, cause: "no CONNECT in time"})
			return f, 0, errEnd
		case err != nil:
			return f, 0, err
		}
	}
}

// refusal is a CONNECT that is understood and not accepted.
type refusal struct {
	code mqttwire.ReasonCode
	text string
}

func (r *refusal) Error() string { return r.text }

// refuseConnect answers with CONNACK where the version has a word for it, and ends the connection
// ([MQTT-3.1.4-2], [MQTT311-3.2.2-5]).
func (c *conn) refuseConnect(err error) error {
	c.server.stats.Refused.Add(1)
	var no *refusal
	var version *mqttwire.UnsupportedVersionError
	var wrong *mqttwire.ProtocolError
	code, answerIn, cause := mqttwire.CodeOf(err), c.version, err.Error()
	switch {
	case errors.As(err, &no):
		code = no.code
	case errors.As(err, &wrong):
		cause = wrong.Text
	case errors.As(err, &version):
		answerIn = version.AnswerIn()
	}
	_, canSay := mqttwire.ReturnCode(code)
	var raw []byte
	if answerIn == mqttwire.V5 || answerIn == mqttwire.V311 && canSay {
		raw = c.connackRefusal(code, cause, answerIn)
	}
	c.out.refuse(raw, ending{code: code, bad: true, cause: "CONNECT refused: " + cause})
	return errEnd
}

// accept attaches the session that CONNECT asks for.
func (c *conn) accept(want *mqttwire.Connect) error {
	if want.Props.Has(mqttwire.HasAuthMethod) { // [MQTT-4.12.0-1]
		return &refusal{mqttwire.BadAuthenticationMethod, "no authentication method is supported"}
	}
	var reply mqttwire.Connack
	if err := c.nameClient(want, &reply.Props); err != nil {
		return err
	}
	if err := c.logIn(want); err != nil {
		return err
	}
	will, err := c.translateWill(want)
	if err != nil {
		return err
	}
	if err := c.checkWill(want); err != nil {
		return err
	}
	c.limits(want, &reply.Props)
	if !c.fits(len(mqttwire.AppendConnack(nil, &reply, c.version))) {
		return &refusal{mqttwire.PacketTooLarge, "the maximum packet size has no room for CONNACK"}
	}
	c.inform(want, &reply)
	attached, err := c.server.broker.Attach(broker.Connect{
		ClientID: c.clientID, User: c.userName, CleanStart: want.CleanStart, Expiry: c.expiry,
		Window: c.window(want), Will: will, Receiver: c, Impatient: true,
	})
	switch {
	case err == nil:
	case errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrClosed):
		return err // nothing may be said any more
	case errors.Is(err, broker.ErrNotOwner):
		return &refusal{mqttwire.ClientIDNotValid, err.Error()}
	case isNoRoom(err):
		return &refusal{mqttwire.ServerBusy, err.Error()}
	case errors.Is(err, broker.ErrSessions):
		c.server.stats.Hits[HitSessions].Add(1)
		return &refusal{mqttwire.QuotaExceeded, err.Error()}
	case errors.Is(err, store.ErrTooLarge): // the will
		return &refusal{mqttwire.PacketTooLarge, err.Error()}
	default:
		return &refusal{mqttwire.ServerUnavailable, err.Error()}
	}
	c.client = attached.Client
	reply.SessionPresent = attached.Present // [MQTT-3.2.2-2], [MQTT-3.2.2-3]
	raw := mqttwire.AppendConnack(nil, &reply, c.version)
	c.out.answer(answer{lsn: attached.LSN, kind: mqttwire.TypeConnack, raw: raw})
	c.checkLogin()
	c.noteConnect(want, attached.Present)
	return nil
}

// limits settles expiry, keep-alive and sizes, and announces what differs from what was asked.
func (c *conn) limits(want *mqttwire.Connect, reply *mqttwire.Properties) {
	opt := c.server.live.Load()
	keepAlive := c.keepAlive(want, reply)
	c.idle = keepAlive + keepAlive/2
	if c.version != mqttwire.V5 {
		if !want.CleanStart {
			c.expiry = opt.SessionExpiry
		}
		return
	}
	if want.Props.Has(mqttwire.HasSessionExpiry) {
		c.expiry = min(want.Props.SessionExpiry, opt.MaxSessionExpiry)
		if c.expiry != want.Props.SessionExpiry {
			c.server.stats.Hits[HitSessionExpiry].Add(1)
			reply.SessionExpiry = c.expiry
			reply.Present |= mqttwire.HasSessionExpiry
		}
	}
	if want.Props.Has(mqttwire.HasTopicAliasMaximum) {
		c.aliasOut = min(int(want.Props.TopicAliasMaximum), opt.TopicAliasMaxOut)
	}
	if c.aliases.max = uint16(opt.TopicAliasMax); c.aliases.max > 0 {
		reply.TopicAliasMaximum = c.aliases.max
		reply.Present |= mqttwire.HasTopicAliasMaximum
	}
	reply.ReceiveMaximum = uint16(min(opt.ReceiveMaximum, math.MaxUint16))
	reply.MaximumPacketSize = opt.MaxPacket
	reply.SharedAvailable = 1
	reply.Present |= mqttwire.HasReceiveMaximum | mqttwire.HasMaximumPacketSize | mqttwire.HasSharedAvailable
}

// keepAlive is what is enforced, and announced where it is not what was asked ([MQTT-3.2.2-22]). MQTT 3.1.1 has no way
// to say so: there it may only be longer than asked.
func (c *conn) keepAlive(want *mqttwire.Connect, reply *mqttwire.Properties) time.Duration {
	opt := c.server.live.Load()
	asked := time.Duration(want.KeepAlive) * time.Second
	granted := asked
	if asked > 0 {
		granted = max(asked, opt.MinKeepAlive)
	}
	if most := opt.MaxKeepAlive; c.version == mqttwire.V5 && most > 0 && (granted == 0 || granted > most) {
		granted = most
	}
	if granted != asked {
		c.server.stats.Hits[HitKeepAlive].Add(1)
		reply.ServerKeepAlive = uint16(min(max(granted/time.Second, 1), math.MaxUint16))
		reply.Present |= mqttwire.HasServerKeepAlive
	}
	return granted
}

// window311 is the most that is in flight to a 3.1.1 client, which cannot say what it takes. It also
// bounds what must count as sent after a crash (ADR 0002, R7).
const window311 = 100

// window is how many messages may be in flight to the client ([MQTT-3.3.4-9]).
func (c *conn) window(want *mqttwire.Connect) int {
	n := c.server.live.Load().MaxInflight
	if c.version != mqttwire.V5 {
		n = min(n, window311)
	}
	if want.Props.Has(mqttwire.HasReceiveMaximum) {
		n = min(n, int(want.Props.ReceiveMaximum))
	}
	return max(n, 1)
}

// translateWill checks the will and makes it the broker's.
func (c *conn) translateWill(want *mqttwire.Connect) (*broker.Will, error) {
	if !want.HasWill {
		return nil, nil
	}
	w := &want.Will
	name := string(w.Topic)
	if topic.CheckName(name) != nil || c.topicTooLarge(w.Topic) != "" || isReserved(w.Topic) {
		return nil, &refusal{mqttwire.TopicNameInvalid, "the will's topic is not one to publish to"}
	}
	if w.Props.Has(mqttwire.HasPayloadFormat) && w.Props.PayloadFormat == 1 && !utf8.Valid(w.Payload) {
		return nil, &refusal{mqttwire.PayloadFormatInvalid, "the will's payload is not UTF-8, but its format indicator says so"}
	}
	will := &broker.Will{Message: &message.Message{
		Topic: name, Payload: append([]byte(nil), w.Payload...), QoS: w.QoS, Retain: w.Retain,
		Properties: translateProperties(&w.Props),
	}}
	if w.Props.Has(mqttwire.HasWillDelay) {
		will.Delay = w.Props.WillDelay
		if will.Delay > c.server.live.Load().MaxWillDelay {
			c.server.stats.Hits[HitWillDelay].Add(1)
			return nil, &refusal{mqttwire.QuotaExceeded, "the will delay interval is longer than the server takes"}
		}
	}
	if w.Props.Has(mqttwire.HasMessageExpiry) {
		will.Expiry = max(w.Props.MessageExpiry, 1)
	}
	return will, nil
}
