package main

import (
	"emanet/internal/app"
	"emanet/internal/config"
)

type doctorCommand struct {
	Dir string `arg:"" help:"Data directory of a broker, running, stopped, or to be."`

	JSON bool `name:"json" help:"Print one JSON object, for machines."`

	// As 'emanet serve' has them, the environment included.
	MaxConnections      int          `default:"20000" placeholder:"N" help:"As of 'emanet serve'."`
	JournalSegments     int          `default:"16" placeholder:"N" help:"As of 'emanet serve'."`
	JournalSegmentBytes config.Bytes `default:"16MiB" placeholder:"SIZE" help:"As of 'emanet serve'."`
	Users               string       `placeholder:"FILE" help:"As of 'emanet serve': who can read it is looked at."`
	MosquittoPasswords  string       `placeholder:"FILE" help:"As of 'emanet serve': who can read it is looked at."`
	ACL                 string       `name:"acl" placeholder:"FILE" help:"As of 'emanet serve': who can read it is looked at."`
}

// Run prints what it found; a problem is a failure, a warning is not.
func (c *doctorCommand) Run(s streams) error {
	need := app.Need{
		Dir: c.Dir, MaxConnections: c.MaxConnections,
		JournalSegments: c.JournalSegments, JournalSegmentBytes: int64(c.JournalSegmentBytes),
	}
	for _, file := range []string{c.Users, c.MosquittoPasswords, c.ACL} {
		if file != "" {
			need.Secrets = append(need.Secrets, file)
		}
	}
	return app.Doctor(need, s.out, c.JSON)
}
