package app

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"emanet/internal/config"
)

// newLogger gives the process's log. Its level may be one that changes (slog.LevelVar). tellLeft writes at the end how
// many lines a storm has left out.
func newLogger(output io.Writer, form config.LogFormat, level slog.Leveler) (log *slog.Logger, tellLeft func()) {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: clip}
	var handler slog.Handler = slog.NewTextHandler(output, options)
	if form == config.LogJSON {
		handler = slog.NewJSONHandler(output, options)
	}
	limited := limitLog(handler)
	return slog.New(limited), limited.limits.tellLeft
}

// logValueMax bounds a value in bytes: clients choose their ids and topics, of up to 64 KiB, and could fill a disk.
const logValueMax = 1 << 10

// clip is a slog.HandlerOptions.ReplaceAttr.
func clip(_ []string, a slog.Attr) slog.Attr {
	var text string
	switch v := a.Value; v.Kind() {
	case slog.KindString:
		text = v.String()
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			text = err.Error()
		}
	}
	if len(text) > logValueMax {
		a.Value = slog.StringValue(fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:logValueMax], ""), len(text)))
	}
	return a
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
