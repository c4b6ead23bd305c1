package config

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Serve is the configuration of `emanet serve`. The field tags are its whole
// grammar: kong reads flags, help text and defaults from them, and the names
// of environment variables and TOML keys follow from the flag names. The tag
// live marks what a reload can change while the process runs (Adopt).
//
// A Serve that came from the parser must pass Complete before it is used.
type Serve struct {
	Data string `default:"./data" placeholder:"DIR" help:"Directory that holds everything the broker keeps. Created when missing."`

	MQTT  Address `name:"mqtt" default:"127.0.0.1:1883" placeholder:"ADDR" help:"MQTT listener over TCP, or 'off'."`
	MQTTS Address `name:"mqtts" default:"off" placeholder:"ADDR" help:"MQTT listener over TLS, most often port 8883, or 'off'. Needs --tls-cert and --tls-key."`

	MQTTUnix     string   `name:"mqtt-unix" placeholder:"PATH" help:"MQTT listener on a Unix socket. The file is made at the start and removed at the stop."`
	MQTTUnixMode FileMode `name:"mqtt-unix-mode" default:"0660" placeholder:"MODE" help:"Who may open the Unix socket."`

	HTTP  Address `name:"http" default:"127.0.0.1:8080" placeholder:"ADDR" help:"HTTP listener for /healthz, /readyz, /metrics and, at /mqtt, MQTT over WebSocket; or 'off'."`
	HTTPS Address `name:"https" default:"off" placeholder:"ADDR" help:"The same as --http over TLS, or 'off'. Needs --tls-cert and --tls-key."`

	TLS   TLS       `embed:"" prefix:"tls-"`
	Proxy Proxy     `embed:"" prefix:"proxy-"`
	WS    WebSocket `embed:"" prefix:"ws-"`

	Salvage bool `help:"Start on a damaged journal: keep what is whole of it, set the damaged segments aside, and log what is lost. Without it a damaged journal is refused."`

	Config string `placeholder:"FILE" help:"TOML file with any of these flags as keys, without the dashes in front."`

	AllowAnonymous bool `help:"Accept clients without a user name: on listeners that other machines can reach, and beside users where there are some. Logs a warning at each start."`

	Users              string        `placeholder:"FILE" help:"TOML file with users and their rights; 'emanet user' writes it."`
	MosquittoPasswords string        `placeholder:"FILE" help:"Password file written by mosquitto_passwd."`
	ACL                string        `name:"acl" placeholder:"FILE" help:"ACL file in mosquitto's form."`
	LoginDelayMax      time.Duration `default:"4s" placeholder:"TIME" help:"Longest that failed logins delay the next ones from their address; 0s delays none."`

	DrainTimeout time.Duration `default:"8s" placeholder:"TIME" help:"How long a stop waits for clients to take their last acknowledgements and the news; then they are cut off. Container runtimes kill 10 seconds after SIGTERM."`

	SysInterval time.Duration `default:"10s" placeholder:"TIME" help:"How often the topics below $SYS/broker are brought up to date; 0s turns them off."`

	MaxConnections int   `live:"" default:"20000" placeholder:"N" help:"MQTT connections at one time."`
	MaxPacketBytes Bytes `placeholder:"SIZE" help:"Largest packet accepted, and so the largest message. Default and maximum: half a journal segment."`

	Connect ConnectLimits `embed:""`

	Limits  MQTTLimits `embed:"" prefix:"mqtt-"`
	Store   StoreSizes `embed:""`
	Logging Logging    `embed:"" prefix:"log-"`
}

// MQTTLimits bounds what MQTT clients can ask for. Each limit is announced in
// CONNACK where MQTT 5 has a property for it.
type MQTTLimits struct {
	MaxQueued      int      `default:"100000" placeholder:"N" help:"Messages that may wait for one session."`
	MaxQueuedBytes Bytes    `default:"64MiB" placeholder:"SIZE" help:"Memory that messages waiting for one session may take if it ends with its connection; those of other sessions go to disk. --mqtt-overflow holds above it as well."`
	Overflow       Overflow `default:"drop-oldest" enum:"drop-oldest,reject-new" placeholder:"POLICY" help:"What happens above that bound: drop-oldest, or reject-new (MQTT 5 publishers get 0x97)."`

	SessionExpiry    Expiry `live:"" default:"never" placeholder:"TIME" help:"How long the session of an MQTT 3.1.1 client (clean session 0) is kept after it has left. 'never' keeps it for good."`
	MaxSessionExpiry Expiry `live:"" default:"never" placeholder:"TIME" help:"Longest Session Expiry Interval granted to an MQTT 5 client. 'never' grants any."`

	MaxInflight    int `live:"" default:"1000" placeholder:"N" help:"QoS 1 and 2 messages sent to one client and not yet settled. The client's Receive Maximum can lower it; MQTT 3.1.1 clients, which have none, get at most 100."`
	ReceiveMaximum int `default:"1000" placeholder:"N" help:"QoS 1 and 2 messages that one client may send before their handshakes end; announced in CONNACK."`

	ResponsePrefix string `name:"response-information" placeholder:"PREFIX" help:"Beginning of the topic that MQTT 5 clients get for their responses when they ask (Response Information); their client id follows it. Without it they get none."`

	TopicAliasMax    int `default:"32" placeholder:"N" help:"Topic aliases that one MQTT 5 client may use; announced in CONNACK, 0 allows none."`
	TopicAliasMaxOut int `default:"32" placeholder:"N" help:"Topic aliases used towards one MQTT 5 client, for the topics it gets most often. The client's Topic Alias Maximum can lower it; 0 uses none."`

	MaxKeepAlive    time.Duration `live:"" default:"0s" placeholder:"TIME" help:"Longest keep-alive granted to an MQTT 5 client, whole seconds; 0s lets the client decide."`
	MinKeepAlive    time.Duration `live:"" default:"0s" placeholder:"TIME" help:"Shortest keep-alive that is enforced, whole seconds: a client that asks for less is told so in MQTT 5, and only ended later in 3.1.1."`
	ConnectTimeout  time.Duration `live:"" default:"10s" placeholder:"TIME" help:"Time from accepting a connection to its whole CONNECT packet."`
	MaxConnectBytes Bytes         `live:"" placeholder:"SIZE" help:"Largest CONNECT packet, which is held for whoever comes. Default: 256KiB, or --max-packet-bytes where that is less; more than that it cannot be."`
	MaxWillDelay    Expiry        `live:"" default:"never" placeholder:"TIME" help:"Longest Will Delay Interval of an MQTT 5 client; one that asks for more is refused (0x97). 'never' sets no bound."`

	MaxPendingHandshakes int `live:"" default:"10000" placeholder:"N" help:"Connections that have not sent their CONNECT. While there are so many, new ones wait, and each has only a quarter of --mqtt-connect-timeout; 0 sets no bound."`
	MaxSessions          int `live:"" default:"1000000" placeholder:"N" help:"Persistent sessions, connected or not; 0 sets no bound."`

	Publish PublishLimits `embed:""`

	MaxSubscriptions int   `live:"" default:"10000" placeholder:"N" help:"Subscriptions of one client."`
	MaxTopicLevels   int   `live:"" default:"128" placeholder:"N" help:"Levels of a topic name or filter, at most 200."`
	MaxTopicBytes    int   `live:"" default:"65535" placeholder:"N" help:"Bytes of a topic name or filter, at most 65535."`
	RouteCache       Bytes `default:"1MiB" placeholder:"SIZE" help:"Memory of one connection for the recipients of the topics it has published to. A larger one saves looking them up again."`
	MaxQoS0Outbox    Bytes `live:"" name:"max-qos0-outbox" default:"4MiB" placeholder:"SIZE" help:"QoS 0 bytes that may wait for one slow client; above it QoS 0 messages to that client are dropped and counted."`
}

// StoreSizes bounds what the broker keeps on disk and in memory.
type StoreSizes struct {
	RetainedMax      int   `live:"" default:"1000000" placeholder:"N" help:"Retained messages; 0 sets no bound."`
	RetainedMaxBytes Bytes `live:"" default:"1GiB" placeholder:"SIZE" help:"Memory of retained messages, all of which are held there; 0 sets no bound."`

	JournalSegments     int   `default:"16" placeholder:"N" help:"Segments of the journal, preallocated at the first start."`
	JournalSegmentBytes Bytes `default:"16MiB" placeholder:"SIZE" help:"Size of one journal segment."`

	MemoryBudget Bytes `default:"64MiB" placeholder:"SIZE" help:"Bodies of waiting messages kept in memory; above it they are read back from disk when their turn comes."`
}

// Logging says what is logged and in which form.
type Logging struct {
	Level  LogLevel  `live:"" default:"info" placeholder:"LEVEL" help:"Least important level logged: debug, info, warn, error."`
	Format LogFormat `default:"text" enum:"text,json" placeholder:"FORM" help:"Form of the log: text or json."`
}

// Overflow names what happens to a message that finds a session's queue full.
type Overflow string

// The two policies for a full queue. DropOldest keeps the freshest, RejectNew
// keeps what was accepted first and tells an MQTT 5 publisher so (0x97).
const (
	DropOldest Overflow = "drop-oldest"
	RejectNew  Overflow = "reject-new"
)

// LogLevel is the least important level that is logged.
type LogLevel slog.Level

// UnmarshalText reads a level by its name, in small letters or capitals.
func (l *LogLevel) UnmarshalText(text []byte) error {
	for _, level := range []LogLevel{LogLevel(slog.LevelDebug), LogLevel(slog.LevelInfo), LogLevel(slog.LevelWarn), LogLevel(slog.LevelError)} {
		if strings.EqualFold(string(text), level.String()) {
			*l = level
			return nil
		}
	}
	return fmt.Errorf("%q is none of debug, info, warn and error", text)
}

// Level implements slog.Leveler.
func (l LogLevel) Level() slog.Level { return slog.Level(l) }

// String gives the level as UnmarshalText reads it.
func (l LogLevel) String() string { return strings.ToLower(slog.Level(l).String()) }

// LogFormat is the form of a log line.
type LogFormat string

// The forms of a log line: key=value text, or one JSON object.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)
