package mqttserver

import (
	"strings"

	"emanet/internal/mqttwire"
)

// responseInformation is the beginning of topics that a client may build its response topics from (MQTT 5, 3.2.2.3.15):
// the configured prefix and a level that no client with another id is given.
func responseInformation(prefix, clientID string) []byte {
	out := append(make([]byte, 0, len(prefix)+len(clientID)), prefix...)
	const hex = "0123456789ABCDEF"
	for _, b := range []byte(clientID) {
		if strings.IndexByte("/+#%", b) >= 0 { // levels and wildcards would reach into those of others
			out = append(out, '%', hex[b>>4], hex[b&15])
			continue
		}
		out = append(out, b)
	}
	return out
}

// inform puts response information into CONNACK for a client that asks, if there is any and CONNACK has room for it.
func (c *conn) inform(want *mqttwire.Connect, reply *mqttwire.Connack) {
	prefix := c.server.opt.ResponsePrefix
	if prefix == "" || !want.Props.Has(mqttwire.HasRequestResponseInfo) || want.Props.RequestResponseInfo == 0 {
		return // [MQTT-3.1.2-28]
	}
	info := responseInformation(prefix, c.clientID)
	if !mqttwire.ValidString(info) {
		return // a client id so long that nothing longer can be said
	}
	reply.Props.ResponseInfo = info
	reply.Props.Present |= mqttwire.HasResponseInfo
	if !c.fits(len(mqttwire.AppendConnack(nil, reply, c.version))) {
		reply.Props.Present &^= mqttwire.HasResponseInfo
	}
}
