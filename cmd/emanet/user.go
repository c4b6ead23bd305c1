package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"emanet/internal/app"
	"emanet/internal/auth"
)

type userCommand struct {
	Add    userAddCommand    `cmd:"" help:"Add a user."`
	Passwd userPasswdCommand `cmd:"" help:"Give a user another password."`
	Remove userRemoveCommand `cmd:"" help:"Remove a user with all its rights."`
	List   userListCommand   `cmd:"" help:"List the users."`
}

type usersFlag struct {
	Users string `required:"" placeholder:"FILE" help:"The file that 'emanet serve --users' reads."`
}

func (f usersFlag) file() auth.UsersFile { return auth.UsersFile(f.Users) }

type passwordFlags struct {
	PasswordFile string `placeholder:"FILE" help:"Read the password from the first line of a file. Without it a terminal is asked, and anything else on standard input is read: the first line of it."`
	Iterations   int    `default:"4096" placeholder:"N" help:"Rounds of PBKDF2: more make a stolen file harder to use, and each first login dearer."`
}

func (f *passwordFlags) read(s streams) ([]byte, error) {
	if f.Iterations < auth.IterationsDefault || f.Iterations > auth.IterationsMax {
		return nil, app.UsageError{Err: fmt.Errorf("--iterations: %d is not between %d and %d", f.Iterations, auth.IterationsDefault, auth.IterationsMax)}
	}
	password, err := f.source(s)
	if err == nil {
		err = auth.CheckPassword(password)
	}
	return password, err
}

func (f *passwordFlags) source(s streams) ([]byte, error) {
	if f.PasswordFile != "" {
		file, err := os.Open(f.PasswordFile)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		return firstLine(file)
	}
	if in := os.Stdin; term.IsTerminal(int(in.Fd())) {
		return askTwice(s.err, func() ([]byte, error) { return term.ReadPassword(int(in.Fd())) })
	}
	return firstLine(os.Stdin)
}

// firstLine reads a line without its end; what follows is not looked at.
func firstLine(from io.Reader) ([]byte, error) {
	const most = 1 << 20
	line, err := bufio.NewReader(io.LimitReader(from, most)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
}

// askTwice lets a typing error come out.
func askTwice(to io.Writer, ask func() ([]byte, error)) ([]byte, error) {
	var answers [2][]byte
	for i, prompt := range []string{"Password: ", "Password again: "} {
		fmt.Fprint(to, prompt)
		answer, err := ask()
		fmt.Fprintln(to)
		if err != nil {
			return nil, err
		}
		answers[i] = answer
	}
	if !bytes.Equal(answers[0], answers[1]) {
		return nil, errors.New("the two passwords differ")
	}
	return answers[0], nil
}

type userAddCommand struct {
	Name string `arg:"" help:"User name, as clients send it."`
	usersFlag
	passwordFlags
	Tag []string `placeholder:"TAG" help:"A tag the user has (administrator, monitoring); may be given again."`
}

// Run adds the user; there must be none of that name.
func (c *userAddCommand) Run(s streams) error {
	if err := auth.CheckName(c.Name); err != nil {
		return app.UsageError{Err: err}
	}
	password, err := c.read(s)
	if err != nil {
		return err
	}
	return c.file().Add(c.Name, password, c.Iterations, c.Tag)
}

type userPasswdCommand struct {
	Name string `arg:"" help:"User name."`
	usersFlag
	passwordFlags
}

// Run replaces the user's password. A broker that reads the file ends the connections made with the old one.
func (c *userPasswdCommand) Run(s streams) error {
	password, err := c.read(s)
	if err != nil {
		return err
	}
	return c.file().SetPassword(c.Name, password, c.Iterations)
}

type userRemoveCommand struct {
	Name string `arg:"" help:"User name."`
	usersFlag
}

// Run removes the user.
func (c *userRemoveCommand) Run(streams) error { return c.file().Remove(c.Name) }

type userListCommand struct {
	usersFlag
}

// Run prints a line for each user.
func (c *userListCommand) Run(s streams) error {
	list, err := c.file().List()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tPASSWORD\tRULES\tTAGS")
	for _, u := range list {
		password := "no"
		if u.Password {
			password = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", u.Name, password, u.Rules, strings.Join(u.Tags, " "))
	}
	return table.Flush()
}
