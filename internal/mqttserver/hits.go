package mqttserver

// Hit names a limit of this server, to count how often it struck.
type Hit int

// The limits that are counted by themselves; others have a figure of their own in Stats.
const (
	HitConnections Hit = iota // MaxConnections
	HitPerAddress
	HitPerUser
	HitConnectRate
	HitConnectRatePerAddress
	HitPending // an accept had to wait
	HitConnectTimeout
	HitConnect        // MaxConnect
	HitPacket         // MaxPacket
	HitReceiveMaximum // the client's QoS 1 and 2 messages
	HitKeepAlive      // MaxKeepAlive or MinKeepAlive changed what was asked
	HitWillDelay
	HitSessionExpiry // MaxSessionExpiry granted less than was asked
	HitSessions      // the broker's bound on sessions
	HitTopicLevels
	HitTopicBytes
	HitTopicAlias
	HitPublishRate // publishes that were read later
	HitPublishBytesRate
	hits // how many there are
)
