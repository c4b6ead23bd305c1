package main

import (
	"context"
	"io"

	"emanet/internal/app"
	"emanet/internal/config"
)

type serveCommand struct {
	config.Serve
}

// reread gives the configuration of serve as it would be if the process were started again now.
type reread func() (config.Serve, error)

// Run serves until a signal ends it or a part of the broker fails for good.
func (c *serveCommand) Run(s streams, again reread) error {
	if err := c.Complete(); err != nil {
		return app.UsageError{Err: err}
	}
	ctx, stop := app.UntilSignal(context.Background(), s.err)
	defer stop()
	return app.Run(ctx, c.Serve, again, s.err)
}

// serveAgain reads the same command line and environment once more: what can differ is the configuration file.
func serveAgain(args, environ []string) (config.Serve, error) {
	var cli commands
	source := config.NewSource(environ)
	if _, err := newParser(&cli, source, io.Discard, io.Discard, func(int) {}).Parse(args); err != nil {
		return config.Serve{}, source.Explain(err)
	}
	if err := cli.Serve.Complete(); err != nil {
		return config.Serve{}, source.Explain(err)
	}
	return cli.Serve.Serve, nil
}
