package mqttserver

import (
	"emanet/internal/mqttwire"
)

// handleDisconnect lets the client go. A normal one discards the will ([MQTT-3.14.4-3]).
func (c *conn) handleDisconnect(f mqttwire.Frame) error {
	var d mqttwire.Disconnect
	if err := mqttwire.DecodeDisconnect(f, c.version, &d); err != nil {
		return err
	}
	if d.Props.Has(mqttwire.HasSessionExpiry) {
		if c.expiry == 0 && d.Props.SessionExpiry != 0 { // 3.14.2.2.2
			return protocolError("DISCONNECT gives a session expiry to a session that had none")
		}
		c.goodbye.HasExpiry = true
		c.goodbye.Expiry = min(d.Props.SessionExpiry, c.server.opt.MaxSessionExpiry)
	}
	c.goodbye.Clean = d.Code == mqttwire.Success
	return errLeave
}
