package local

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"unicode/utf8"

	"emanet/internal/message"
	"emanet/internal/store"
)

// records brings topology records and retained messages to their newest value.
func (w *writer) records(n *net) error {
	for _, p := range slices.SortedFunc(maps.Keys(n.prefixes), compareKeys) {
		if err := w.deletePrefix(p); err != nil {
			return fmt.Errorf("records %s %q and on: %w", p.kind, p.key, err)
		}
	}
	keys, values := n.sortedRecords()
	for i, k := range keys {
		var err error
		if value := values[i].value; value == nil {
			err = w.stmt.recordDelete.exec(k.kind, k.key)
		} else {
			err = w.stmt.recordPut.exec(k.kind, k.key, text(value))
		}
		if err != nil {
			return fmt.Errorf("record %s %q: %w", k.kind, k.key, err)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(n.retained)) {
		if err := w.retain(topic, n.retained[topic].body); err != nil {
			return fmt.Errorf("retained %q: %w", topic, err)
		}
	}
	return nil
}

// deletePrefix deletes a range of keys: those from the prefix to below the next string of its length.
func (w *writer) deletePrefix(p recordKey) error {
	next := []byte(p.key)
	for len(next) > 0 && next[len(next)-1] == 0xff {
		next = next[:len(next)-1]
	}
	if len(next) == 0 {
		return w.stmt.recordsFrom.exec(p.kind, p.key)
	}
	next[len(next)-1]++
	return w.stmt.recordsBetween.exec(p.kind, p.key, text(next))
}

func (w *writer) retain(topic string, body []byte) error {
	if body == nil {
		return w.stmt.retainedDelete.exec(topic)
	}
	m, err := message.Decode(body)
	if err != nil {
		w.stray("a retained message cannot be read", slog.String("topic", topic), slog.Any("error", err))
		return nil
	}
	var expires, properties any
	if m.ExpiresAt != 0 {
		expires = m.ExpiresAt
	}
	if m.Properties != nil {
		properties = string(encodeProperties(m.Properties))
	}
	retain := 0
	if m.Retain {
		retain = 1
	}
	return w.stmt.retainedPut.exec(topic, m.Payload, int(m.QoS), retain, m.ReceivedAt, expires, properties)
}

// readRetained is the inverse of retain: s gives the columns in the order of retainedColumns.
func readRetained(s *statement) (*message.Message, error) {
	m := &message.Message{
		Topic: s.ColumnText(0), Payload: s.ColumnBlob(1, []byte{}), QoS: uint8(s.ColumnInt(2)),
		Retain: s.ColumnInt(3) != 0, ReceivedAt: s.ColumnInt64(4), ExpiresAt: s.ColumnInt64(5),
	}
	properties := s.ColumnRawText(6)
	if properties == nil {
		return m, nil
	}
	var err error
	if m.Properties, err = decodeProperties(properties); err != nil {
		return nil, fmt.Errorf("%w: retained %q: properties: %w", store.ErrCorrupt, m.Topic, err)
	}
	return m, nil
}

const retainedColumns = `topic, payload, qos, retain, received_at, expires_at, properties`

// propertiesJSON shows a message's properties to people with a SQLite tool. Strings that are not UTF-8,
// which JSON cannot hold, make the whole travel as Raw: the stored form of a message that has no more than them.
type propertiesJSON struct {
	PayloadUTF8   *bool       `json:"payload_utf8,omitempty"`
	ContentType   *string     `json:"content_type,omitempty"`
	ResponseTopic *string     `json:"response_topic,omitempty"`
	Correlation   *string     `json:"correlation_base64,omitempty"`
	User          [][2]string `json:"user,omitempty"`
	Raw           string      `json:"raw_base64,omitempty"`
}

func encodeProperties(p *message.Properties) []byte {
	var j propertiesJSON
	if !propertiesUTF8(p) {
		j.Raw = base64.StdEncoding.EncodeToString((&message.Message{Properties: p}).Append(nil))
	} else {
		if p.HasPayloadFormat {
			j.PayloadUTF8 = &p.PayloadIsUTF8
		}
		if p.HasContentType {
			j.ContentType = &p.ContentType
		}
		if p.HasResponseTopic {
			j.ResponseTopic = &p.ResponseTopic
		}
		if p.HasCorrelation {
			c := base64.StdEncoding.EncodeToString(p.Correlation)
			j.Correlation = &c
		}
		for _, u := range p.User {
			j.User = append(j.User, [2]string{u.Key, u.Value})
		}
	}
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // strings and booleans always encode
	}
	return b
}

func propertiesUTF8(p *message.Properties) bool {
	if p.PayloadIsUTF8 && !p.HasPayloadFormat {
		return false // not a wire state, but kept all the same
	}
	if !utf8.ValidString(p.ContentType) || !utf8.ValidString(p.ResponseTopic) {
		return false
	}
	return !slices.ContainsFunc(p.User, func(u message.Pair) bool {
		return !utf8.ValidString(u.Key) || !utf8.ValidString(u.Value)
	})
}

func decodeProperties(b []byte) (*message.Properties, error) {
	var j propertiesJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, err
	}
	if j.Raw != "" {
		raw, err := base64.StdEncoding.DecodeString(j.Raw)
		if err != nil {
			return nil, err
		}
		m, err := message.Decode(raw)
		if err != nil {
			return nil, err
		}
		if m.Properties == nil {
			return nil, errors.New("raw form without properties")
		}
		return m.Properties, nil
	}
	p := &message.Properties{}
	if j.PayloadUTF8 != nil {
		p.HasPayloadFormat, p.PayloadIsUTF8 = true, *j.PayloadUTF8
	}
	if j.ContentType != nil {
		p.HasContentType, p.ContentType = true, *j.ContentType
	}
	if j.ResponseTopic != nil {
		p.HasResponseTopic, p.ResponseTopic = true, *j.ResponseTopic
	}
	if j.Correlation != nil {
		c, err := base64.StdEncoding.DecodeString(*j.Correlation)
		if err != nil {
			return nil, err
		}
		p.HasCorrelation, p.Correlation = true, c
	}
	for _, u := range j.User {
		p.User = append(p.User, message.Pair{Key: u[0], Value: u[1]})
	}
	return p, nil
}

func encodeReceived(ids map[uint16]bool) []byte {
	out := make([]byte, 0, 2*len(ids))
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		out = binary.LittleEndian.AppendUint16(out, id)
	}
	return out
}

func decodeReceived(b []byte) []uint16 {
	ids := make([]uint16, 0, len(b)/2)
	for ; len(b) >= 2; b = b[2:] {
		ids = append(ids, binary.LittleEndian.Uint16(b))
	}
	return ids
}
