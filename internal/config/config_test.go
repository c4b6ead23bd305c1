package config

import (
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

type grammar struct {
	Serve Serve `cmd:""`
}

// parse runs the grammar as cmd does, without a process around it.
func parse(environ []string, args ...string) (Serve, error) {
	var cli grammar
	source := NewSource(environ)
	parser, err := kong.New(&cli, kong.Resolvers(source), kong.Exit(func(int) {}))
	if err != nil {
		panic(err)
	}
	if _, err := parser.Parse(append([]string{"serve"}, args...)); err != nil {
		return Serve{}, source.Explain(err)
	}
	if err := cli.Serve.Complete(); err != nil {
		return Serve{}, source.Explain(err)
	}
	return cli.Serve, nil
}

func mustParse(t *testing.T, environ []string, args ...string) Serve {
	t.Helper()
	serve, err := parse(environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	return serve
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "emanet.toml")
	mustWrite(t, path, text)
	return path
}

func TestDefaultsNeedNothingSet(t *testing.T) {
	t.Parallel()
	serve := mustParse(t, nil)
	if serve.MQTT != "127.0.0.1:1883" || serve.HTTP != "127.0.0.1:8080" || serve.Data != "./data" {
		t.Errorf("addresses and directory: %+v", serve)
	}
	if serve.MaxPacketBytes != 8<<20 {
		t.Errorf("max-packet-bytes = %v, want half of a 16 MiB segment", serve.MaxPacketBytes)
	}
	if got := mustParse(t, nil, "--max-packet-bytes=2KiB").Limits.MaxConnectBytes; serve.Limits.MaxConnectBytes != 256<<10 || got != 2<<10 {
		t.Errorf("mqtt-max-connect-bytes = %v, and %v where packets have 2 KiB", serve.Limits.MaxConnectBytes, got)
	}
	if serve.Limits.Overflow != DropOldest || serve.Limits.MaxQueued != 100_000 || serve.Limits.MaxQueuedBytes != 64<<20 || serve.Limits.SessionExpiry != Never {
		t.Errorf("limits: %+v", serve.Limits)
	}
	if serve.Logging.Level.Level() != slog.LevelInfo || serve.Logging.Format != LogText {
		t.Errorf("logging: %+v", serve.Logging)
	}
}

func TestFlagsWinOverTheEnvironmentAndTheEnvironmentOverTheFile(t *testing.T) {
	t.Parallel()
	file := writeFile(t, `
		mqtt-max-queued = 1
		mqtt-max-inflight = 1
		mqtt-receive-maximum = 1
		mqtt-overflow = "reject-new"
		memory-budget = "2MiB"
		journal-segment-bytes = 1048576
		allow-anonymous = true
	`)
	environ := []string{"EMANET_MQTT_MAX_QUEUED=2", "EMANET_MQTT_MAX_INFLIGHT=2", "EMANET_CONFIG=" + file}
	serve := mustParse(t, environ, "--mqtt-max-queued=3")
	got := [...]int{serve.Limits.MaxQueued, serve.Limits.MaxInflight, serve.Limits.ReceiveMaximum}
	if got != [...]int{3, 2, 1} {
		t.Errorf("flag, environment, file = %v, want 3, 2, 1", got)
	}
	if serve.Limits.Overflow != RejectNew || serve.Store.MemoryBudget != 2<<20 ||
		serve.Store.JournalSegmentBytes != 1<<20 || !serve.AllowAnonymous {
		t.Errorf("values of each TOML type: %+v", serve)
	}
	if serve.MaxPacketBytes != 512<<10 {
		t.Errorf("max-packet-bytes = %v, want to follow the segment size", serve.MaxPacketBytes)
	}

	other := writeFile(t, `mqtt-max-queued = 7`)
	if serve := mustParse(t, []string{"EMANET_CONFIG=" + file}, "--config", other); serve.Limits.MaxQueued != 7 {
		t.Errorf("--config did not win over EMANET_CONFIG: %d", serve.Limits.MaxQueued)
	}
}

func TestAListInTheFileIsAnArrayOrAStringWithCommas(t *testing.T) {
	t.Parallel()
	for _, form := range []string{`["https://a.example", "https://b.example"]`, `"https://a.example,https://b.example"`} {
		serve := mustParse(t, nil, "--config", writeFile(t, "ws-origins = "+form))
		if want := (Origins{"https://a.example", "https://b.example"}); !reflect.DeepEqual(serve.WS.Origins, want) {
			t.Errorf("%s is read as %q", form, serve.WS.Origins)
		}
	}
	serve := mustParse(t, nil, "--config", writeFile(t, `
		proxy-protocol = "trusted"
		proxy-trusted = ["10.0.0.0/8", "192.0.2.7"]
		proxy-listeners = ["mqtt"]
	`))
	if len(serve.Proxy.Trusted) != 2 || !reflect.DeepEqual(serve.Proxy.Listeners, Names{"mqtt"}) {
		t.Errorf("%+v", serve.Proxy)
	}
	if serve := mustParse(t, nil, "--config", writeFile(t, `ws-origins = []`)); len(serve.WS.Origins) != 0 {
		t.Errorf("an empty list is read as %q", serve.WS.Origins)
	}
}

func TestAListInTheFileThatCannotBeOneIsRefused(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		`mqtt-overflow = ["drop-oldest"]`:                      {"mqtt-overflow", "one value, not a list"},
		`proxy-listeners = [1883]`:                             {"proxy-listeners", "strings"},
		`ws-origins = ["https://a.example,https://b.example"]`: {"ws-origins", "comma"},
		`ws-origins = ["https://a.example", "b"]`:              {"--ws-origins", `"b" is not an origin`, "set by"},
	} {
		_, err := parse(nil, "--config", writeFile(t, file))
		if err == nil {
			t.Errorf("%s is accepted", file)
			continue
		}
		for _, says := range want {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %q does not say %q", file, err, says)
			}
		}
	}
}

func TestBadInputIsRefusedNamingWhatToChange(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		environ []string
		file    string
		args    []string
		want    []string // all must be in the error
	}{
		{name: "an unknown flag", args: []string{"--tls=x"}, want: []string{"unknown flag --tls"}},
		{name: "an unknown TOML key", file: `mqtt-max-queue = 1`,
			want: []string{"emanet.toml", "unknown key mqtt-max-queue", "mqtt-max-queued"}},
		{name: "a TOML table", file: "[mqtt]\nmax-queued = 1", want: []string{"mqtt", "must be a string"}},
		{name: "an unknown TOML table", file: "[mqt]\nmax-queued = 1", want: []string{"unknown key mqt", "nearest known one is mqtt"}},
		{name: "broken TOML", file: "mqtt = ", want: []string{"emanet.toml"}},
		{name: "a file that names another", file: `config = "x"`, want: []string{"config", "another"}},
		{name: "a file that is not there", args: []string{"--config=/nonexistent/x.toml"}, want: []string{"/nonexistent/x.toml"}},
		{name: "an unknown variable", environ: []string{"EMANET_HTPP=off"}, want: []string{"EMANET_HTPP", "EMANET_HTTP"}},
		{name: "a number that is none", args: []string{"--max-connections=many"}, want: []string{"--max-connections", "many"}},
		{name: "a bad value of a variable", environ: []string{"EMANET_MAX_CONNECTIONS=many"},
			want: []string{"--max-connections", "set by EMANET_MAX_CONNECTIONS"}},
		{name: "a bad value in the file", file: `memory-budget = "lots"`,
			want: []string{"--memory-budget", "lots", "set by", "emanet.toml"}},
		{name: "a value out of range", args: []string{"--mqtt-max-inflight=65536"},
			want: []string{"--mqtt-max-inflight", "65536 is not between 1 and 65535"}},
		{name: "a value out of range in the file", file: `mqtt-max-inflight = 0`, want: []string{"--mqtt-max-inflight", "set by"}},
		{name: "more topic aliases than there are", args: []string{"--mqtt-topic-alias-max=65536"},
			want: []string{"--mqtt-topic-alias-max", "65536 is not between 0 and 65535"}},
		{name: "more topic aliases than there are, towards clients", args: []string{"--mqtt-topic-alias-max-out=-1"},
			want: []string{"--mqtt-topic-alias-max-out", "-1 is not between 0 and 65535"}},
		{name: "a wildcard in the response topic", args: []string{"--mqtt-response-information=a/+/"},
			want: []string{"--mqtt-response-information", "topic name"}},
		{name: "more topic levels than matching takes", args: []string{"--mqtt-max-topic-levels=201"},
			want: []string{"--mqtt-max-topic-levels", "201 is not between 1 and 200"}},
		{name: "a keep-alive with a part of a second", args: []string{"--mqtt-max-keep-alive=500ms"},
			want: []string{"--mqtt-max-keep-alive", "500ms", "whole seconds"}},
		{name: "a negative time", args: []string{"--mqtt-connect-timeout=-1s"}, want: []string{"--mqtt-connect-timeout", "-1s"}},
		{name: "a policy that does not exist", args: []string{"--mqtt-overflow=panic"}, want: []string{"--mqtt-overflow", "drop-oldest"}},
		{name: "a level that does not exist", args: []string{"--log-level=loud"}, want: []string{"--log-level", `"loud" is none of debug, info, warn and error`}},
		{name: "a port that is none", args: []string{"--mqtt=127.0.0.1:mqtt"}, want: []string{"--mqtt", "port"}},
		{name: "an address without a port", args: []string{"--http=localhost"}, want: []string{"--http", "HOST:PORT"}},
		{name: "a CONNECT larger than a packet", args: []string{"--mqtt-max-connect-bytes=2MiB", "--max-packet-bytes=1MiB"},
			want: []string{"--mqtt-max-connect-bytes", "2MiB", "1MiB", "--max-packet-bytes"}},
		{name: "a CONNECT smaller than any", args: []string{"--mqtt-max-connect-bytes=1023B"}, want: []string{"--mqtt-max-connect-bytes", "1KiB"}},
		{name: "a packet larger than half a segment", args: []string{"--max-packet-bytes=9MiB"},
			want: []string{"--max-packet-bytes", "9MiB", "8MiB", "--journal-segment-bytes"}},
		{name: "every listener off", args: []string{"--mqtt=off", "--http=off"}, want: []string{"--mqtt", "every listener is off"}},
		{name: "no directory", args: []string{"--data="}, want: []string{"--data"}},
		{name: "an open listener without users", args: []string{"--mqtt=:1883"}, want: []string{"--mqtt", "--allow-anonymous"}},
		{name: "an open HTTP listener without users", args: []string{"--http=0.0.0.0:80"}, want: []string{"--http", "--allow-anonymous"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args := test.args
			if test.file != "" {
				args = append(args, "--config", writeFile(t, test.file))
			}
			_, err := parse(test.environ, args...)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestVariablesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	mustParse(t, []string{"EMANET_SERVICE_HOST=10.0.0.1", "EMANET_PORT_1883_TCP=tcp://x", "EMANET_SOAK_ROUNDS=3", "PATH=/bin", "=", "x"})
}

func TestAllowAnonymousOpensListeners(t *testing.T) {
	t.Parallel()
	serve := mustParse(t, nil, "--mqtt=:1883", "--http=0.0.0.0:80", "--allow-anonymous")
	if serve.MQTT.Loopback() || serve.HTTP.Loopback() {
		t.Error("an open listener passed for loopback, so nobody would be warned")
	}
}

func TestCompleteTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	once := mustParse(t, nil)
	twice := once
	if err := twice.Complete(); err != nil || !reflect.DeepEqual(twice, once) {
		t.Errorf("%v: %+v, then %+v", err, once, twice)
	}
}

func TestValuesReadBackAsTheyAreShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bytes{"0B": 0, "7B": 7, "1KiB": 1 << 10, "1023KiB": 1023 << 10, "16MiB": 16 << 20, "3GiB": 3 << 30} {
		var got Bytes
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v, %v, shown as %v", text, int64(got), err, got)
		}
	}
	for text, want := range map[string]Expiry{"never": Never, "0s": 0, "30d": Expiry(30 * 24 * time.Hour), "36h": Expiry(36 * time.Hour)} {
		var got, again Expiry
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%s shows as %v, which reads as %v (%v)", text, got, again, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "9223372036854775807GiB", "99999999999999999999", "1 TiB"} {
		if err := new(Bytes).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("size %q was accepted", text)
		}
	}
	for _, text := range []string{"", "d", "-1d", "70000d", "-5s", "soon"} {
		if err := new(Expiry).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("expiry %q was accepted", text)
		}
	}
}

func TestLoopbackIsWhatOtherMachinesCannotReach(t *testing.T) {
	t.Parallel()
	for address, want := range map[Address]bool{
		Off: true, "127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "192.168.0.1:1": false, "broker.example:1": false, "": false,
	} {
		if address.Loopback() != want {
			t.Errorf("%q: loopback = %v", address, !want)
		}
	}
}
