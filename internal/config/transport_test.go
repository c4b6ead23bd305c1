package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestWhatListenersNeedIsAskedFor(t *testing.T) {
	t.Parallel()
	certificate := []string{"--mqtts=127.0.0.1:8883", "--tls-cert=c.pem", "--tls-key=k.pem"}
	tests := []struct {
		name string
		args []string
		want []string // all must be in the error
	}{
		{"TLS without a certificate", []string{"--mqtts=127.0.0.1:8883"}, []string{"--tls-cert", "--mqtts"}},
		{"TLS without a key", []string{"--https=127.0.0.1:8443", "--tls-cert=c.pem"}, []string{"--tls-key", "--https"}},
		{"a certificate that nothing uses", []string{"--tls-cert=c.pem"}, []string{"--tls-cert", "neither"}},
		{"a key that nothing uses", []string{"--tls-key=c.pem"}, []string{"--tls-key", "neither"}},
		{"authorities that nothing uses", []string{"--tls-client-ca=c.pem"}, []string{"--tls-client-ca", "neither"}},
		{"client certificates without TLS", []string{"--tls-client-auth=require"}, []string{"--tls-client-auth", "neither"}},
		{"client certificates without authorities", append(certificate, "--tls-client-auth=optional"), []string{"--tls-client-auth", "--tls-client-ca"}},
		{"authorities without a question", append(certificate, "--tls-client-ca=c.pem"), []string{"--tls-client-ca", "--tls-client-auth"}},
		{"a user name without a question", append(certificate, "--tls-user=cn"), []string{"--tls-user", "--tls-client-auth"}},
		{"a place for a user name that there is not", append(certificate, "--tls-user=ou"), []string{"--tls-user", "san"}},
		{"an open TLS listener without users", []string{"--mqtts=:8883", "--tls-cert=c.pem", "--tls-key=k.pem"}, []string{"--mqtts", "--allow-anonymous"}},
		{"PROXY headers from everybody", []string{"--proxy-protocol=require"}, []string{"--proxy-protocol", "--proxy-trusted"}},
		{"proxies that nobody listens to", []string{"--proxy-trusted=10.0.0.0/8"}, []string{"--proxy-trusted", "off"}},
		{"a network that is none", []string{"--proxy-trusted=10.0.0.0/33"}, []string{"--proxy-trusted", "10.0.0.0/33"}},
		{"a listener that there is not", []string{"--proxy-listeners=amqp"}, []string{"--proxy-listeners", "amqp"}},
		{"an origin with a path", []string{"--ws-origins=https://example.org/app"}, []string{"--ws-origins", "without a path"}},
		{"an origin without a scheme", []string{"--ws-origins=example.org"}, []string{"--ws-origins", "example.org"}},
		{"origins that nothing uses", []string{"--ws-origins=*", "--http=off"}, []string{"--ws-origins", "--https"}},
		{"frames too small for anything", []string{"--ws-max-frame-bytes=100"}, []string{"--ws-max-frame-bytes", "1KiB"}},
		{"a socket's path that is too long", []string{"--mqtt-unix=/" + strings.Repeat("x", 92)}, []string{"--mqtt-unix", "93 bytes"}},
		{"a mode that is none", []string{"--mqtt-unix=/tmp/x", "--mqtt-unix-mode=0888"}, []string{"--mqtt-unix-mode", "0888"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(nil, test.args...)
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

func TestACertificateForEveryClientStandsForUsers(t *testing.T) {
	t.Parallel()
	serve := mustParse(t, nil, "--mqtts=:8883", "--tls-cert=c", "--tls-key=k", "--tls-client-ca=a", "--tls-client-auth=require", "--tls-user=cn")
	if l := serve.Listener("mqtts"); !serve.Named(l) || l.Address.Loopback() {
		t.Errorf("%+v", l)
	}
	if serve.Named(serve.Listener("mqtt")) {
		t.Error("a listener without TLS has no certificates")
	}
}

func TestTheUnixSocketAloneIsEnough(t *testing.T) {
	t.Parallel()
	serve := mustParse(t, nil, "--mqtt=off", "--http=off", "--mqtt-unix=/run/emanet.sock")
	if serve.MQTTUnixMode != 0o660 {
		t.Errorf("mode %o", serve.MQTTUnixMode)
	}
}

func TestListsAreSeparatedByCommas(t *testing.T) {
	t.Parallel()
	serve := mustParse(t, []string{"EMANET_WS_ORIGINS=https://A.example.org, http://localhost:3000,null"},
		"--proxy-protocol=trusted", "--proxy-trusted=10.1.2.3/8,::1", "--proxy-listeners=mqtt, https")
	if want := (Origins{"https://a.example.org", "http://localhost:3000", "null"}); !reflect.DeepEqual(serve.WS.Origins, want) {
		t.Errorf("%q", serve.WS.Origins)
	}
	if n := serve.Proxy.Trusted; len(n) != 2 || n[0].String() != "10.0.0.0/8" || n[1].String() != "::1/128" {
		t.Errorf("%v", n)
	}
	var speak []string
	for _, l := range serve.Listeners() {
		if l.Proxied == ProxyTrusted {
			speak = append(speak, l.Flag)
		}
	}
	if want := []string{"mqtt", "https"}; !reflect.DeepEqual(speak, want) {
		t.Errorf("%q speak it", speak)
	}
}
