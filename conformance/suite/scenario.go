// Package suite is the conformance suite: scenarios on the real kernel, and what drives a reader through them from outside.
package suite

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Scenario is one thing that users expect of a reader.
type Scenario struct {
	Name string   // subject/what
	Page string   // its page: the first line says what is expected
	run  func(*T) // ends early by T.Failf or T.Cannotf
}

// Title is the page's first line.
func (s Scenario) Title() string {
	title, _, _ := strings.Cut(s.Page, "\n")
	return title
}

// Outcome is what came of a scenario.
type Outcome string

// The outcomes. Cannot says that the reader's API has no way to express the scenario, or that this machine has no way to stage it.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	Cannot Outcome = "cannot"
)

// Result is what came of one scenario with one reader.
type Result struct {
	Scenario string  `json:"scenario"`
	Outcome  Outcome `json:"outcome"`
	Text     string  `json:"text,omitempty"` // what was seen, or why it cannot
	Seconds  float64 `json:"seconds"`
	Log      string  `json:"-"` // the adapter's stderr
}

// T is a scenario that runs.
type T struct {
	reader   Reader
	patience time.Duration // how long nothing may happen before that is a hang
	short    bool          // less of what takes long
	note     string
	cleanups []func()
	sources  []*Source
	subjects []*Subject
}

// verdict ends a scenario, by panic.
type verdict struct {
	outcome Outcome
	text    string
}

// Failf ends the scenario: this is what was seen.
func (t *T) Failf(format string, args ...any) { panic(verdict{Failed, fmt.Sprintf(format, args...)}) }

// Cannotf ends the scenario: this is why it cannot be expressed, or staged.
func (t *T) Cannotf(format string, args ...any) {
	panic(verdict{Cannot, fmt.Sprintf(format, args...)})
}

// Notef notes a figure that was seen, for the table.
func (t *T) Notef(format string, args ...any) { t.note = fmt.Sprintf(format, args...) }

// must ends the scenario on an error that is the suite's or the machine's, not the reader's.
func (t *T) must(err error) {
	if err != nil {
		t.Cannotf("not on this machine: %v", err)
	}
}

// Cleanup has f called when the scenario has ended; the last one first.
func (t *T) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// Options are how scenarios run.
type Options struct {
	Patience time.Duration
	Short    bool
}

// Run runs a scenario with a reader.
func Run(s Scenario, r Reader, o Options) (result Result) {
	t := &T{reader: r, patience: o.Patience, short: o.Short}
	begin := time.Now()
	result = Result{Scenario: s.Name, Outcome: Passed}
	defer func() {
		slices.Reverse(t.cleanups)
		for _, f := range t.cleanups {
			f()
		}
		result.Seconds = time.Since(begin).Seconds()
		for _, subject := range t.subjects {
			result.Log += subject.stderr.String()
		}
	}()
	defer func() {
		switch v := recover().(type) {
		case nil:
			result.Text = t.note
		case verdict:
			result.Outcome, result.Text = v.outcome, v.text
		default:
			result.Outcome, result.Text = Failed, fmt.Sprintf("the suite: %v\n%s", v, debug.Stack())
		}
	}()
	s.run(t)
	for _, subject := range t.subjects {
		subject.finish()
	}
	return result
}
