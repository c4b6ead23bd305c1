package app

import (
	"errors"
	"fmt"
	"io"

	"emanet/internal/store/local"
)

// ErrProblems is what Check returns when the directory could be read and is not
// in order.
var ErrProblems = errors.New("the data directory has problems")

// Check reads a whole data directory that no broker has open, and prints what
// it holds and what does not fit together.
func Check(dir string, out io.Writer) error {
	report, err := local.Check(dir, local.Options{})
	if err != nil {
		return err
	}
	if report.Opened {
		fmt.Fprintf(out, "%d records, %d retained messages\n", report.Records, report.Retained)
		fmt.Fprintf(out, "%d mailboxes with %d entries on %d pages\n", report.Mailboxes, report.Entries, report.EntryPages)
		fmt.Fprintf(out, "%d messages on %d pages\n", report.Messages, report.MessagePages)
		fmt.Fprintf(out, "database of %d bytes, folded up to batch %d; journal up to batch %d, %d of them not folded\n",
			report.DatabaseBytes, report.Folded, report.Last, report.Unfolded)
	}
	for _, problem := range report.Problems {
		fmt.Fprintln(out, "problem:", problem)
	}
	if report.MoreProblems > 0 {
		fmt.Fprintf(out, "problem: %d more\n", report.MoreProblems)
	}
	if len(report.Problems) > 0 {
		return fmt.Errorf("%s: %w", dir, ErrProblems)
	}
	fmt.Fprintln(out, "no problems found")
	return nil
}
