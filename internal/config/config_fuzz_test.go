package config

import (
	"os"
	"testing"
)

// FuzzConfigurationFile feeds any text as the file. Whatever it says, the
// parser answers with values inside their bounds or with an error; it never
// panics and never passes on what Complete would have refused.
func FuzzConfigurationFile(f *testing.F) {
	for _, text := range []string{
		"", "mqtt = \"off\"", "mqtt-max-queued = 5\nmemory-budget = \"2MiB\"", "[mqtt]\nx = 1", "http = 1979-05-27",
		"mqtt-session-expiry = \"30d\"", "max-packet-bytes = -9223372036854775808", "allow-anonymous = \"maybe\"",
		"\"\" = 1", "mqtt-overflow = [\"drop-oldest\"]", "log-level = \"INFO+2\"", "data = \"\\u0000\"",
	} {
		f.Add(text)
	}
	path := f.TempDir() + "/emanet.toml"
	f.Fuzz(func(t *testing.T, text string) {
		mustWrite(t, path, text)
		serve, err := parse([]string{"EMANET_CONFIG=" + path})
		if err != nil {
			return
		}
		for _, b := range serve.bounds() {
			if b.value < b.low || b.value > b.high {
				t.Errorf("--%s = %d was accepted", b.flag, b.value)
			}
		}
		if !serve.AllowAnonymous && (!serve.MQTT.Loopback() || !serve.HTTP.Loopback()) {
			t.Errorf("open listeners without --allow-anonymous: %v, %v", serve.MQTT, serve.HTTP)
		}
	})
}

// FuzzFlags feeds any value to each flag.
func FuzzFlags(f *testing.F) {
	f.Add("mqtt-max-queued", "5")
	f.Add("memory-budget", "1GiB")
	f.Add("mqtt-session-expiry", "1d")
	f.Add("http", "[::1]:1")
	f.Fuzz(func(t *testing.T, flag, value string) {
		if serve, err := parse(nil, "--"+flag+"="+value); err == nil && serve.MaxPacketBytes <= 0 {
			t.Errorf("--%s=%q left no room for a packet", flag, value)
		}
	})
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
