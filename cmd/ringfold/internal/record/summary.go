package record

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/spf13/cobra"
)

// summary is what was recorded.
type summary struct {
	File      string `json:"file,omitempty"` // with --max-size and --max-age, without the number
	Files     uint64 `json:"files"`
	Snapshots int    `json:"snapshots"`
	Events    uint64 `json:"events"` // samples
	Lost      uint64 `json:"lost"`
	Shed      uint64 `json:"shed"`
	Corrupt   uint64 `json:"corrupt"`            // stretches of ring memory that could not be read
	TooLarge  uint64 `json:"too_large"`          // samples that a perf.data file has no room for
	Filtered  uint64 `json:"filtered"`           // samples that did not match
	Rejected  uint64 `json:"rejected,omitempty"` // records that a collector said it has not kept
	Bytes     uint64 `json:"bytes"`
	// Displaced counts entries that other readers have taken; nil: not known. Up to OwnedUntil, no event is missing for that.
	Displaced  *int             `json:"displaced"`
	OwnedUntil uint64           `json:"owned_until_ns,omitempty"`
	Seconds    float64          `json:"seconds"`
	Command    *source.Command  `json:"command,omitempty"`
	Spool      *fleet.SinkStats `json:"spool,omitempty"` // of what was published
}

// snapshot is a file of a flight recorder.
type snapshot struct {
	File          string  `json:"file"`
	Trigger       string  `json:"trigger"` // signal, event or end
	Events        uint64  `json:"events"`
	Lost          uint64  `json:"lost"`
	CompleteSince uint64  `json:"complete_since_ns"`
	Until         uint64  `json:"until_ns"`
	Seconds       float64 `json:"seconds"` // from CompleteSince to Until
}

func (s snapshot) String() string {
	return fmt.Sprintf("%s: %d events of the last %.3f s, %d lost (%s)", s.File, s.Events, s.Seconds, s.Lost, s.Trigger)
}

// snapshot counts one.
func (s *summary) snapshot(one snapshot, bytes uint64) {
	s.Bytes += bytes
	s.Snapshots++
	s.Files++
	s.Events += one.Events
	s.Lost += one.Lost
}

// recorded counts what is in the files.
func (s *summary) recorded(file string, stats perfdata.Stats) {
	s.File, s.Files, s.Bytes = file, stats.Files, stats.Bytes
	s.Events, s.Lost, s.Shed, s.Corrupt, s.TooLarge = stats.Samples, stats.Lost, stats.Shed, stats.Corrupt, stats.TooLarge
}

// end adds what is known at the end.
func (s *summary) end(set *source.Set, elapsed time.Duration) {
	s.Displaced, s.OwnedUntil = set.Displaced()
	s.Seconds, s.Filtered, s.Command = elapsed.Round(time.Microsecond).Seconds(), set.Filtered, set.Command
}

func (s *summary) String() string {
	text := fmt.Sprintf("%s: %d events in %.1f s, %d lost", s.File, s.Events, s.Seconds, s.Lost)
	for _, more := range []struct {
		count uint64
		what  string
	}{{s.Shed, "shed"}, {s.Filtered, "did not match"}, {s.TooLarge, "too large for the file"}, {s.Corrupt, "stretches of ring memory corrupt"}, {s.Rejected, "records rejected"}} {
		if more.count > 0 {
			text += fmt.Sprintf(", %d %s", more.count, more.what)
		}
	}
	if s.Files > 1 {
		text += fmt.Sprintf("; %d files", s.Files)
	}
	if s.Spool != nil {
		text += spoolText(s.Spool)
	}
	return text + ended(s.Command)
}

func ended(c *source.Command) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("\n%s: %s", c.Args[0], c.Status)
}

// print prints an object or a text, unless stdout is for events.
func (c *config) print(cmd *cobra.Command, object any, text string) error {
	switch {
	case c.Format == cli.JSON:
		return json.NewEncoder(cmd.OutOrStdout()).Encode(object)
	case c.write == "-":
		cmd.PrintErrln(text)
		return nil
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
