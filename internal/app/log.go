package app

import (
	"io"
	"log/slog"

	"emanet/internal/config"
)

// newLogger gives the process's log. Its level may be one that changes (slog.LevelVar). tellLeft writes at the end how
// many lines a storm has left out.
func newLogger(output io.Writer, form config.LogFormat, level slog.Leveler) (log *slog.Logger, tellLeft func()) {
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(output, options)
	if form == config.LogJSON {
		handler = slog.NewJSONHandler(output, options)
	}
	limited := limitLog(handler)
	return slog.New(limited), limited.limits.tellLeft
}

// warnAtStart says at every start what an operator should not forget having
// switched on.
func warnAtStart(log *slog.Logger, cfg config.Serve) {
	if cfg.HasUsers() && !cfg.AllowAnonymous {
		return
	}
	for _, l := range cfg.Listeners() {
		if !l.Address.Loopback() {
			log.Warn("anonymous clients are accepted on a listener that other machines can reach",
				"flag", "--"+l.Flag, "address", string(l.Address))
		}
	}
}
