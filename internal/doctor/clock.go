package doctor

import "time"

// A clock outside these years was never set.
const (
	yearFirst = 2025
	yearLast  = 2100
)

// clock looks at the time of day: expiries bridge restarts by it, and certificates are checked by it.
func clock(now time.Time) []Finding {
	if y := now.UTC().Year(); y < yearFirst || y > yearLast {
		return []Finding{problem("clock", "set it, and keep it set by NTP (chrony, systemd-timesyncd)", "it says %s", now.UTC().Format(time.RFC3339))}
	}
	synchronised, known := clockSynchronised()
	switch {
	case !known:
		return []Finding{ok("clock", "it says %s; whether it is kept right cannot be told", now.UTC().Format(time.RFC3339))}
	case !synchronised:
		return []Finding{warning("clock", "run chrony or systemd-timesyncd: expiry intervals bridge restarts by the clock, and certificates are checked by it",
			"it says %s, and nothing keeps it right", now.UTC().Format(time.RFC3339))}
	}
	return []Finding{ok("clock", "it says %s, and is synchronised", now.UTC().Format(time.RFC3339))}
}
