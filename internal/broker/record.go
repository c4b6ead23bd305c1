package broker

import (
	"bytes"
	"encoding/json"
	"fmt"

	"emanet/internal/message"
)

// Kinds of topology records. Their values are JSON and part of the disk format: the views of broker.db
// read them (docs/format/store.md).
const (
	kindSession = "session" // key: client id
	kindSub     = "sub"     // key: client id, U+0000, filter
	kindWalk    = "walk"    // the same key: retained messages still to be queued for that subscription
	kindWill    = "will"    // key: client id
	kindShare   = "share"   // key: "$share/NAME/FILTER", of a shared subscription with a persistent member
)

// sessionRecord is a persistent session. While Attached, nobody knows how far it was sent: after a crash
// the first Window unsettled entries with seqs below Before (0: all there are) count as sent.
type sessionRecord struct {
	Mailbox   uint64 `json:"mailbox"`
	Expiry    uint32 `json:"expiry"` // seconds after the connection ends; Never
	Attached  bool   `json:"attached"`
	Sent      uint64 `json:"sent"` // highest seq ever sent, as far as recorded
	Window    int    `json:"window,omitempty"`
	Before    uint64 `json:"before,omitempty"`
	ExpiresAt int64  `json:"expires_at,omitempty"` // Unix ms, while detached
	WillAt    int64  `json:"will_at,omitempty"`    // when its will is due, Unix ms, while detached
	User      string `json:"user,omitempty"`       // whose it is
}

// subRecord is one subscription of a persistent session.
type subRecord struct {
	Client            string `json:"client"`
	Filter            string `json:"filter"`
	QoS               uint8  `json:"qos"`
	NoLocal           bool   `json:"no_local,omitempty"`
	RetainAsPublished bool   `json:"rap,omitempty"`
	RetainHandling    uint8  `json:"rh,omitempty"`
	ID                uint32 `json:"id,omitempty"`
}

// shareRecord is a shared subscription: its members are the subscriptions of that filter.
type shareRecord struct {
	Mailbox uint64 `json:"mailbox"`
}

// walkRecord says where the queueing of retained messages for a subscription stands.
type walkRecord struct {
	After string `json:"after"` // topic.Cursor.Position
	// Since is the broker's clock at the subscription, Unix ms: what was received later came as a live message.
	Since int64 `json:"since"`
}

// willRecord is a will. It is written once, at CONNECT; when it is due stands in the session's record.
type willRecord struct {
	Delay   uint32 `json:"delay,omitempty"` // seconds
	Topic   string `json:"topic"`           // for readers; Message is what counts
	Message []byte `json:"message"`         // stored form
	User    string `json:"user,omitempty"`  // whose it is
	Expiry  uint32 `json:"message_expiry,omitempty"`
}

func subKey(client, filter string) string { return client + "\x00" + filter }

// mustJSON encodes a record; its types cannot fail. Nothing is escaped for the sake of HTML: six bytes for
// one would be a burden on topics.
func mustJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("broker: %T does not encode: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func (w *Will) record(user string) []byte {
	return mustJSON(&willRecord{Delay: w.Delay, Topic: w.Message.Topic, Message: w.Message.Append(nil), Expiry: w.Expiry, User: user})
}

func (s *Subscription) record(client string) []byte {
	return mustJSON(&subRecord{
		Client: client, Filter: s.Filter, QoS: s.QoS, NoLocal: s.NoLocal,
		RetainAsPublished: s.RetainAsPublished, RetainHandling: s.RetainHandling, ID: s.ID,
	})
}

func (r *willRecord) will(client string) (*Will, error) {
	m, err := message.Decode(r.Message)
	if err != nil {
		return nil, fmt.Errorf("will of client %q: %w", client, err)
	}
	return &Will{Message: m, Delay: r.Delay, Expiry: r.Expiry}, nil
}
