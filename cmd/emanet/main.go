// Command emanet is the broker and its tools. Each subcommand has a file of
// its own, which parses and calls package app.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"emanet/internal/app"
	"emanet/internal/config"
)

// Exit codes: 2 says that the command line, the environment or the
// configuration file must change; 1 that the world failed.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

type commands struct {
	Serve   serveCommand   `cmd:"" help:"Run the broker."`
	Check   checkCommand   `cmd:"" help:"Read a data directory and report what does not fit together."`
	Doctor  doctorCommand  `cmd:"" help:"Look at a disk and a machine: are they fit for a broker, and what to change."`
	User    userCommand    `cmd:"" help:"Change the users in a file of 'emanet serve --users'."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// streams is where a subcommand writes: results to out, everything else to err.
type streams struct {
	out, err io.Writer
}

// run is main without the process: it returns the exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	var cli commands
	source := config.NewSource(environ)
	exited := -1
	if len(args) == 1 && args[0] == "--version" { // what most programs take; as a flag it would also be a variable
		args = []string{"version"}
	}
	if len(args) > 0 && args[0] == "help" { // also before the name of a subcommand
		args = append(args[1:len(args):len(args)], "--help")
	}
	parser := newParser(&cli, source, stdout, stderr, func(code int) { exited = code })
	ctx, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err == nil {
		err = ctx.Run(streams{out: stdout, err: stderr}, reread(func() (config.Serve, error) { return serveAgain(args, environ) }))
	} else {
		err = app.UsageError{Err: err}
	}
	if err == nil {
		return exitOK
	}
	var logged app.LoggedError
	if !errors.As(err, &logged) {
		fmt.Fprintf(stderr, "emanet: %v\n", source.Explain(err))
	}
	var usage app.UsageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// newParser is the grammar of the command line. exit is called where --help has printed.
func newParser(cli *commands, source *config.Source, stdout, stderr io.Writer, exit func(int)) *kong.Kong {
	return kong.Must(cli,
		kong.Name("emanet"),
		kong.Description("A message broker whose acknowledgements mean: on disk and flushed.\n\n"+
			"Flags can also be set in the environment: EMANET_ and the flag's name in capitals, with _ for -."),
		kong.Resolvers(source),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.ValueFormatter(helpWithDefault),
	)
}

// helpWithDefault adds the default to a flag's help; kong leaves it out where
// a placeholder is set.
func helpWithDefault(value *kong.Value) string {
	if !value.HasDefault {
		return value.Help
	}
	return value.Help + " (default " + value.Default + ")"
}
