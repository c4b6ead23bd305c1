package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"text/tabwriter"

	"emanet/internal/doctor"
	"emanet/internal/store"
	"emanet/internal/store/local"
)

// ErrUnfit is what Doctor returns when a broker could not run here, or not keep its promise.
var ErrUnfit = errors.New("the doctor has found a problem")

// Need is what the doctor compares the machine with.
type Need struct {
	Dir                 string
	MaxConnections      int
	JournalSegments     int
	JournalSegmentBytes int64
	Secrets             []string // files with users or rights
}

// Doctor looks at the machine and the data directory, and prints what it found, as text or as JSON.
func Doctor(need Need, out io.Writer, asJSON bool) error {
	if need.Dir == "" {
		return UsageError{errors.New("the name of the data directory is empty")}
	}
	journal := int64(need.JournalSegments) * need.JournalSegmentBytes
	if need.MaxConnections < 0 || need.JournalSegments < 0 || journal < 0 {
		return UsageError{errors.New("a negative number makes no sense")}
	}
	found := doctor.Examine(doctor.Options{
		Dir: need.Dir, Files: uint64(need.MaxConnections) + filesBeside,
		NewBytes:  journal + journal/4, // the database's log and the ballast are an eighth each
		WithUsers: need.Secrets,
	})
	found = append(found, format(need.Dir)...)
	unfit := slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Level == doctor.Problem })
	if err := show(found, !unfit, out, asJSON); err != nil {
		return err
	}
	if unfit {
		return fmt.Errorf("%s: %w", need.Dir, ErrUnfit)
	}
	return nil
}

// format tells whether this emanet can read the directory; nothing when there is none.
func format(dir string) []doctor.Finding {
	got, known, err := local.Format(dir)
	f := doctor.Finding{Check: "format", Level: doctor.OK}
	switch {
	case errors.Is(err, syscall.ENOTDIR): // which has been found
		return nil
	case errors.Is(err, store.ErrFormat):
		f.Level, f.Found, f.Change = doctor.Problem, err.Error(), "run the emanet that wrote it, or a newer one"
	case err != nil:
		f.Level, f.Found, f.Change = doctor.Problem, err.Error(), "restore a copy"
	case got == 0:
		return nil
	default:
		f.Found = fmt.Sprintf("%d; this emanet knows up to %d", got, known)
	}
	return []doctor.Finding{f}
}

// show prints the findings. Of the text the first column can be searched for, as in a log.
func show(found []doctor.Finding, fit bool, out io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(struct {
			Fit      bool             `json:"fit"`
			Findings []doctor.Finding `json:"findings"`
		}{fit, found})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range found {
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Level, f.Check, f.Found)
		if f.Level != doctor.OK && f.Change != "" {
			fmt.Fprintf(table, "\t\t-> %s\n", f.Change)
		}
	}
	return table.Flush()
}
