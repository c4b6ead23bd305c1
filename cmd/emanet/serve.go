package main

import (
	"context"

	"emanet/internal/app"
	"emanet/internal/config"
)

type serveCommand struct {
	config.Serve
}

// Run serves until a signal ends it or a part of the broker fails for good.
func (c *serveCommand) Run(s streams) error {
	if err := c.Complete(); err != nil {
		return usageError{err}
	}
	ctx, stop := app.UntilSignal(context.Background(), s.err)
	defer stop()
	return app.Run(ctx, c.Serve, s.err)
}
