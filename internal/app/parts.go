package app

import (
	"emanet/internal/config"
)

// parts lists what runs, in the order of starting. Stopping goes the other way:
// listeners, connections, broker, store, the directory's lock.
//
// HTTP comes first, but for those it lets in, so that a long recovery can be watched on /readyz.
func parts(cfg config.Serve, host *Host) []Part {
	var c core
	all := []Part{
		usersPart(cfg, host, &c.users),
		httpPart(cfg, host, &c.users),
		corePart(cfg, host, &c),
		mqttPart(cfg, host, &c),
		sysPart(cfg, host, &c),
	}
	on := all[:0]
	for _, part := range all {
		if part.Start != nil {
			on = append(on, part)
		}
	}
	return on
}

// httpPart is the zero Part when the listener is off.
func httpPart(cfg config.Serve, host *Host, u *users) Part {
	if cfg.HTTP == config.Off {
		return Part{}
	}
	return listenerPart(host, config.Listener{Flag: "http", Address: cfg.HTTP}, func() Server {
		return newHTTPServer(host, u.guard(cfg.HTTP))
	})
}
