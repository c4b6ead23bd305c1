package app

import (
	"context"
	"fmt"

	"emanet/internal/config"
)

// parts lists what runs, in the order of starting. Stopping goes the other way:
// listeners, connections, broker, store, the directory's lock.
//
// HTTP comes early, so that a long recovery can be watched on /readyz.
func parts(cfg config.Serve, host *Host) []Part {
	all := []Part{
		httpPart(cfg, host),
		mqttPart(cfg),
	}
	on := all[:0]
	for _, part := range all {
		if part.Name != "" {
			on = append(on, part)
		}
	}
	return on
}

// httpPart is the zero Part when the listener is off.
func httpPart(cfg config.Serve, host *Host) Part {
	if cfg.HTTP == config.Off {
		return Part{}
	}
	return listenerPart(host, config.Listener{Flag: "http", Address: cfg.HTTP}, func() Server { return newHTTPServer(host) })
}

// mqttPart refuses to start: this build has no broker behind it.
func mqttPart(cfg config.Serve) Part {
	if cfg.MQTT == config.Off {
		return Part{}
	}
	return Part{
		Name: "mqtt listener",
		Start: func(context.Context) error {
			return fmt.Errorf("--mqtt %s: this build has no MQTT server; only --mqtt off works", cfg.MQTT)
		},
	}
}
