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
	if serversCode(d.Code) || d.Props.Has(mqttwire.HasServerReference) { // table 3-10, 3.14.2.2.5
		return protocolError("DISCONNECT says what only a server may say")
	}
	if d.Props.Has(mqttwire.HasSessionExpiry) {
		if c.expiry == 0 && d.Props.SessionExpiry != 0 { // 3.14.2.2.2
			return protocolError("DISCONNECT gives a session expiry to a session that had none")
		}
		c.goodbye.HasExpiry = true
		c.goodbye.Expiry = min(d.Props.SessionExpiry, c.server.live.Load().MaxSessionExpiry)
	}
	c.goodbye.Clean = d.Code == mqttwire.Success
	return errLeave
}

// serversCode tells which reason codes of DISCONNECT a client may not send.
func serversCode(code mqttwire.ReasonCode) bool {
	switch code {
	case mqttwire.NotAuthorized, mqttwire.ServerBusy, mqttwire.ServerShuttingDown, mqttwire.BadAuthenticationMethod,
		mqttwire.KeepAliveTimeout, mqttwire.SessionTakenOver, mqttwire.TopicFilterInvalid, mqttwire.RetainNotSupported,
		mqttwire.QoSNotSupported, mqttwire.UseAnotherServer, mqttwire.ServerMoved, mqttwire.SharedSubscriptionsNotSupported,
		mqttwire.ConnectionRateExceeded, mqttwire.MaximumConnectTime, mqttwire.SubscriptionIDsNotSupported,
		mqttwire.WildcardsNotSupported:
		return true
	}
	return false
}
