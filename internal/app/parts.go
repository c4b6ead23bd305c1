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
	var certs certificates
	web := newSite(cfg, host, &c)
	host.Metrics.Add(web.samples)
	tcp := func(flag string) Part {
		l := cfg.Listener(flag)
		return mqttListener(host, &c, flag, l.Address.On(), listen(l, cfg, &certs))
	}
	all := []Part{
		usersPart(cfg, host, &c.users),
		certificatesPart(cfg, host, &certs),
		httpPart(cfg, host, "http", web, &certs),
		httpPart(cfg, host, "https", web, &certs),
		corePart(cfg, host, &c),
		mqttPart(cfg, host, &c),
		tcp("mqtt"),
		tcp("mqtts"),
		mqttListener(host, &c, "mqtt-unix", cfg.MQTTUnix != "", listenUnix(cfg)),
		sysPart(cfg, host, &c),
		watchdogPart(host, &c),
	}
	on := all[:0]
	for _, part := range all {
		if part.Start != nil {
			on = append(on, part)
		}
	}
	return on
}
