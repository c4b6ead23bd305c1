package app

import (
	"emanet/internal/mailbox"
	"emanet/internal/mqttserver"
	"emanet/internal/store"
)

// samples are the broker's and the store's figures.
func (c *core) samples(emit func(Sample)) {
	n := c.broker.Counters()
	counter := func(name, help string, v uint64, labels ...string) {
		emit(Sample{Name: name, Help: help, Kind: Counter, Value: float64(v), Labels: labels})
	}
	gauge := func(name, help string, v float64) {
		emit(Sample{Name: name, Help: help, Kind: Gauge, Value: v})
	}
	counter("emanet_publishes_total", "Publishes taken in.", n.Published.Load())
	counter("emanet_publishes_refused_total", "Publishes refused by a bound.", n.Refused.Load())
	counter("emanet_publishes_unmatched_total", "Publishes that nobody had subscribed to.", n.Unmatched.Load())
	counter("emanet_mqtt_denied_publishes_total", "Publishes that their client had no right to.", n.Denied.Load())
	counter("emanet_mqtt_unreadable_total", "Recipients that a message was kept from: they had subscribed and may not read its topic.", n.Unreadable.Load())
	counter("emanet_queued_total", "Messages put into sessions' mailboxes.", n.Queued.Load())
	counter("emanet_live_total", "Messages handed to connections at QoS 0.", n.Live.Load())
	counter("emanet_takeovers_total", "Connections that lost their session to a newer one.", n.Takeovers.Load())
	counter("emanet_wills_total", "Wills published.", n.WillsPublished.Load())
	counter("emanet_wills_refused_total", "Wills refused by a bound, or too large for the store.", n.WillsRefused.Load())
	counter("emanet_sessions_ended_total", "Sessions that ended: with their connection, expired, or discarded by a clean start.", n.SessionsEnded.Load())
	counter("emanet_sessions_expired_total", "Sessions that ended by their expiry interval.", n.Expired.Load())
	counter("emanet_retained_expired_total", "Retained messages removed because they expired.", n.RetainedEnded.Load())
	for r := range mailbox.Reasons {
		if r == mailbox.ReasonPurged { // nothing in MQTT purges
			continue
		}
		counter("emanet_dropped_total", "Queued messages removed without delivery.", n.Dropped[r].Load(), "reason", r.String())
	}
	g := c.broker.Gauges()
	gauge("emanet_sessions", "Sessions, connected or not.", float64(g.Sessions))
	gauge("emanet_subscriptions", "Subscriptions.", float64(g.Subscriptions))
	gauge("emanet_retained", "Retained messages.", float64(g.Retained))
	gauge("emanet_sessions_away", "Sessions without a connection.", float64(g.Away))
	gauge("emanet_pending", "Messages that wait for a session or for its acknowledgement.", float64(g.Pending))
	gauge("emanet_inflight", "Messages sent at QoS 1 and 2 and not settled.", float64(g.InFlight))
	gauge("emanet_pending_bytes", "Topics and payloads of the pending messages.", float64(g.Bytes))
	gauge("emanet_shared_groups", "Shared subscriptions.", float64(g.Groups))
	gauge("emanet_shared_members", "Memberships of sessions in shared subscriptions.", float64(g.GroupMembers))
	gauge("emanet_shared_pending", "Messages that wait in shared subscriptions or are on loan to their members.", float64(g.GroupsPending))
	gauge("emanet_mailbox_memory_bytes", "About the memory that waiting messages occupy.", float64(g.Memory))
	c.storeSamples(emit, counter, gauge)
}

func (c *core) storeSamples(emit func(Sample), counter func(string, string, uint64, ...string), gauge func(string, string, float64)) {
	st := c.store.Stats()
	gauge("emanet_journal_appended_lsn", "LSN of the newest batch.", float64(st.Appended))
	gauge("emanet_journal_flushed_lsn", "LSN up to which everything is on disk.", float64(st.Flushed))
	gauge("emanet_journal_folded_lsn", "LSN up to which everything is in SQLite.", float64(st.Folded))
	counter("emanet_journal_flushes_total", "Groups written and flushed.", st.Groups)
	counter("emanet_journal_bytes_total", "Bytes written to the journal.", st.GroupBytes)
	gauge("emanet_journal_used_bytes", "Journal that cannot be reused yet.", float64(st.JournalUsed))
	gauge("emanet_journal_size_bytes", "Size of the journal.", float64(st.JournalTotal))
	counter("emanet_folds_total", "Folds into SQLite.", st.Folds)
	counter("emanet_folded_operations_total", "Operations folded.", st.FoldedOps)
	emit(Sample{Name: "emanet_fold_seconds_total", Help: "Time spent folding.", Kind: Counter, Value: st.FoldSeconds})
	gauge("emanet_wal_bytes", "Size of broker.db-wal.", float64(st.WALBytes))
	gauge("emanet_database_bytes", "Size of broker.db.", float64(st.DatabaseBytes))
	gauge("emanet_journal_failed", "1 when the journal has failed: the process is ending.", boolean(c.store.Err() != nil))
	histogram := func(name, help string, h *store.Histogram) {
		emit(Sample{Name: name, Help: help, Kind: Histogram, Value: h.Sum, Bounds: h.Bounds, Counts: h.Counts, Count: h.Count})
	}
	histogram("emanet_journal_flush_seconds", "Time that the disk took for one flush.", &st.FlushSeconds)
	histogram("emanet_journal_group_batches", "Batches (publishes, settlements, changes) that shared one flush.", &st.GroupBatches)
}

// mqttSamples are the MQTT server's figures.
func mqttSamples(server *mqttserver.Server) func(emit func(Sample)) {
	return func(emit func(Sample)) {
		s := server.Stats()
		counter := func(name, help string, v uint64) {
			emit(Sample{Name: name, Help: help, Kind: Counter, Value: float64(v)})
		}
		emit(Sample{Name: "emanet_mqtt_connections", Help: "Connections.", Kind: Gauge, Value: float64(s.Connections.Load())})
		counter("emanet_mqtt_accepted_total", "Connections accepted.", s.Accepted.Load())
		counter("emanet_mqtt_refused_total", "Connections refused by a limit or for their CONNECT.", s.Refused.Load())
		counter("emanet_mqtt_unprepared_total", "Connections ended before CONNECT: the TLS handshake or the PROXY header failed or came too late.", s.Unprepared.Load())
		counter("emanet_mqtt_malformed_total", "Connections ended for what the client sent.", s.Malformed.Load())
		counter("emanet_mqtt_timeouts_total", "Connections ended for silence: no packet within 1.5 times the keep-alive, or no CONNECT in time.", s.TimedOut.Load())
		counter("emanet_mqtt_subscriptions_refused_total", "Subscriptions refused by a bound (0x97).", s.OverQuota.Load())
		counter("emanet_mqtt_paced_total", "Bursts after which a publisher waited for the only reader of its QoS 0 messages.", s.Paced.Load())
		counter("emanet_mqtt_live_dropped_total", "QoS 0 messages a slow client missed.", s.LiveDropped.Load())
		counter("emanet_mqtt_denied_subscriptions_total", "Subscriptions refused because nothing of them may be read (0x87).", s.DeniedSubscriptions.Load())
		counter("emanet_mqtt_denied_wills_total", "CONNECTs refused because the topic of the will may not be written (0x87).", s.DeniedWills.Load())
		counter("emanet_mqtt_denied_deliveries_total", "Messages not sent, because the right to read them was lost while they waited.", s.DeniedDeliveries.Load())
		counter("emanet_mqtt_too_large_dropped_total", "Messages above a client's maximum packet size.", s.TooLargeDropped.Load())
		counter("emanet_mqtt_stalled_publishes_total", "Publishes that waited for room in the store.", s.StalledPublishes.Load())
		counter("emanet_mqtt_held_lost_total", "Publishes that waited for room and were given up, unacknowledged, when their connection ended.", s.HeldLost.Load())
	}
}

// trafficSamples are what goes over the connections.
func trafficSamples(server *mqttserver.Server) func(emit func(Sample)) {
	return func(emit func(Sample)) {
		counter := func(name, help string, v uint64, labels ...string) {
			emit(Sample{Name: name, Help: help, Kind: Counter, Value: float64(v), Labels: labels})
		}
		server.Clients(func(k mqttserver.Kind, n int) {
			emit(Sample{Name: "emanet_mqtt_clients", Help: "Connections that have a session, by MQTT version and by what carries them.",
				Kind: Gauge, Value: float64(n), Labels: []string{"version", k.Version, "transport", k.Transport}})
		})
		t := server.Traffic()
		t.In.Each(func(packet string, n uint64) {
			counter("emanet_mqtt_packets_received_total", "Packets received.", n, "type", packet)
		})
		t.Out.Each(func(packet string, n uint64) {
			counter("emanet_mqtt_packets_sent_total", "Packets sent.", n, "type", packet)
		})
		counter("emanet_mqtt_received_bytes_total", "Bytes received.", t.In.Bytes)
		counter("emanet_mqtt_sent_bytes_total", "Bytes sent.", t.Out.Bytes)
		counter("emanet_mqtt_received_payload_bytes_total", "Bytes of the payloads of publishes received.", t.In.Payload)
		counter("emanet_mqtt_sent_payload_bytes_total", "Bytes of the payloads of messages sent.", t.Out.Payload)
		counter("emanet_mqtt_acknowledged_total", "PUBACK and PUBREC sent with success.", t.Acknowledged)
	}
}

func boolean(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
