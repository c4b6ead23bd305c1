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
		if l.Address.On() && !l.Address.Loopback() && !cfg.Named(l) {
			log.Warn("anonymous clients are accepted on a listener that other machines can reach",
				"flag", "--"+l.Flag, "address", string(l.Address))
		}
	}
}

// filesBeside is about how many files are open that are no connections: journal, databases, listeners, scrapes.
const filesBeside = 100

// warnOfFiles says when not every connection that is allowed can have its file descriptor.
func warnOfFiles(log *slog.Logger, maxConnections int, files uint64) {
	if uint64(maxConnections)+filesBeside > files {
		log.Warn("ulimit -n is too low for --max-connections: connections beyond it are not accepted; raise the one or lower the other",
			"open_files", files, "max_connections", maxConnections, "needed", maxConnections+filesBeside)
	}
}
