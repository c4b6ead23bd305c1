package scenario

import (
	"emanet/bench/load"
	"emanet/bench/peer"
)

// The main rows again over TLS 1.3 with one kind of certificate, and over WebSocket.
var (
	overTLS       = over("tls", "over TLS", peer.Needs{TLS: true}, (*peer.Broker).Secure)
	overWebSocket = over("ws", "over WebSocket", peer.Needs{WebSocket: true}, (*peer.Broker).WebSocket)
)

func over(suffix, how string, needs peer.Needs, at func(*peer.Broker) load.Target) []Scenario {
	variant := func(of Scenario, run func(*peer.Broker, load.Target, Settings) (Figures, error)) Scenario {
		of.Name += "-" + suffix
		of.About += "; all connections " + how
		of.Needs, of.Rounds = needs, 1
		of.Metrics = append([]Metric(nil), of.Metrics...)
		of.Metrics[barOf(of.Metrics)].Bar = ">= 1.2x"
		of.Run = func(b *peer.Broker, s Settings) (Figures, error) { return run(b, at(b), s) }
		return of
	}
	return []Scenario{
		variant(burst, func(b *peer.Broker, at load.Target, s Settings) (Figures, error) {
			return publishToOffline(b, at, "burst", s.Burst, load.Patience)
		}),
		variant(fanOut, func(b *peer.Broker, at load.Target, s Settings) (Figures, error) { return fan(b, at, s, 1, 50) }),
		variant(pairs, runPairs),
	}
}

// barOf is the first metric that has a bar: the rate.
func barOf(metrics []Metric) int {
	for i, m := range metrics {
		if m.Bar != "" {
			return i
		}
	}
	return 0
}
