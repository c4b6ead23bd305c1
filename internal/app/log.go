package app

import (
	"io"
	"log/slog"

	"emanet/internal/config"
)

// newLogger gives the process's log. Its level may be one that changes (slog.LevelVar).
func newLogger(output io.Writer, form config.LogFormat, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if form == config.LogJSON {
		return slog.New(slog.NewJSONHandler(output, options))
	}
	return slog.New(slog.NewTextHandler(output, options))
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
