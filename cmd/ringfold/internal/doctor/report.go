package doctor

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/perfbuf"
)

// Status is the outcome of a check.
type Status string

// Statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // something is slower, smaller or cannot be seen
	Bad  Status = "bad"  // something does not work
)

// Check is one thing that the doctor has looked at.
type Check struct {
	Name   string   `json:"name"`
	Status Status   `json:"status"`
	Found  string   `json:"found"`
	Notes  []string `json:"notes,omitempty"`
	Fix    string   `json:"fix,omitempty"` // what to do about it
}

// Report has all checks, in a form to paste into an issue. It names no host, no user and no file of the user's.
type Report struct {
	Version   string  `json:"version"`
	Checks    []Check `json:"checks"`
	BadChecks int     `json:"bad"`
	Warnings  int     `json:"warn"`

	online int // CPUs
}

func (r *Report) add(status Status, name, found, fix string) {
	r.Checks = append(r.Checks, Check{Name: name, Status: status, Found: found, Fix: fix})
	switch status {
	case Bad:
		r.BadChecks++
	case Warn:
		r.Warnings++
	}
}

// failed adds a check that ended with an error. Its first line says what is wrong; the others, and the fixes that bpfload and perfbuf
// know, say how to mend it.
func (r *Report) failed(status Status, name string, err error, fix string) {
	found, more, _ := strings.Cut(err.Error(), "\n")
	if load := new(*bpfload.Error); errors.As(err, load) {
		more = (*load).Fix
		found = strings.TrimSuffix(found, ": "+more)
		more = strings.ToUpper(more[:1]) + more[1:] + "."
	}
	if refused := new(*perfbuf.PermissionError); errors.As(err, refused) {
		found, more = (*refused).Err.Error(), (*refused).Detail
	}
	if more = strings.Join(strings.Fields(more), " "); more != "" {
		fix = strings.TrimSpace(more + " " + fix)
	}
	r.add(status, name, found, fix)
}

// text prints the report for people: a line per check, and what to do about it below.
func (r *Report) text(w io.Writer, format cli.Format) error {
	paint := cli.Colours(w)
	if format == cli.Compact {
		paint = cli.Colours(nil)
	}
	colours := map[Status]string{OK: "32", Warn: "33", Bad: "1;31"}
	var b strings.Builder
	fmt.Fprintln(&b, r.Version)
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%s  %-19s %s\n", paint(colours[c.Status], fmt.Sprintf("%-4s", c.Status)), c.Name, indent(c.Found))
		for _, note := range c.Notes {
			fmt.Fprintf(&b, "%*s%s\n", column, "", indent(note))
		}
		if c.Fix != "" {
			fmt.Fprintf(&b, "%*s%s\n", column, "", indent("-> "+c.Fix))
		}
	}
	switch {
	case r.BadChecks > 0:
		fmt.Fprintf(&b, "%d bad, %d warnings.\n", r.BadChecks, r.Warnings)
	case r.Warnings > 0:
		fmt.Fprintf(&b, "All works, with warnings: %d.\n", r.Warnings)
	default:
		b.WriteString("All works.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// column is where the text of a check begins.
const column = 4 + 2 + 19 + 1

// indent wraps a text at 100 columns, below the column in which it begins.
func indent(s string) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > 100-column {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n"+strings.Repeat(" ", column))
}
