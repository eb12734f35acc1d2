// Checkstream reads what "ringfold demo --json" printed, and fails unless it is one ordered stream
// of all CPUs: each line parses, times never decrease except on lines that say they are late, which
// in exact mode none does, every online CPU is there, and the summary on the last line agrees with
// the lines before it. A simulated stream fails too: it says nothing about this kernel.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ringfold/ringfold/internal/cpulist"
)

// A line is an event, or the summary.
type line struct {
	TimeNS *uint64 `json:"time_ns"`
	CPU    *int    `json:"cpu"`
	Event  *string `json:"event"`
	Late   bool    `json:"late"`
	Lost   uint64  `json:"lost"`

	Summary *summary `json:"summary"`
}

type summary struct {
	Events     *int    `json:"events"`
	Mode       string  `json:"mode"`
	Late       *int    `json:"late"`
	Lost       *uint64 `json:"lost"`
	OutOfOrder *int    `json:"out_of_order"`
	Samples    *uint64 `json:"samples"`
	Unread     *uint64 `json:"unread"`
	Outputs    *uint64 `json:"outputs"`
	Simulated  bool    `json:"simulated"`
}

// counts are those of the lines before the summary.
type counts struct {
	events, late  int
	samples, lost uint64
}

// disagrees says what is wrong with a summary of these lines, or nothing.
func (s *summary) disagrees(c counts) string {
	switch {
	case s.Simulated:
		return "simulated"
	case s.Events == nil || *s.Events != c.events:
		return fmt.Sprintf("there are %d events", c.events)
	case s.OutOfOrder == nil || *s.OutOfOrder != 0:
		return "out of order"
	case s.Late == nil || *s.Late != c.late:
		return fmt.Sprintf("%d lines are late", c.late)
	case s.Mode != "exact" && s.Mode != "slack":
		return "no such mode"
	case s.Mode == "exact" && c.late > 0:
		return "late in exact mode"
	case s.Samples == nil || *s.Samples != c.samples:
		return fmt.Sprintf("there are %d samples", c.samples)
	case s.Lost == nil || *s.Lost < c.lost:
		return fmt.Sprintf("%d events were lost", c.lost)
	case s.Unread == nil || s.Outputs == nil || *s.Outputs != *s.Samples+*s.Lost+*s.Unread:
		return "outputs are not samples + lost + unread"
	}
	return ""
}

func main() {
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err == nil {
		err = check(os.Stdin, string(online))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkstream:", err)
		os.Exit(1)
	}
}

func check(r io.Reader, online string) error {
	cpus, err := cpulist.Parse(online)
	if err != nil {
		return err
	}
	var (
		c    counts
		n    int
		last uint64
		seen = map[int]bool{}
		done bool
	)
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		n++
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return fmt.Errorf("line %d: %w: %.200s", n, err, in.Bytes())
		}
		switch {
		case done:
			return fmt.Errorf("line %d comes after the summary", n)
		case l.Summary != nil:
			done = true
			if wrong := l.Summary.disagrees(c); wrong != "" {
				return fmt.Errorf("%s: the summary is %s", wrong, in.Bytes())
			}
			continue
		case l.TimeNS == nil || l.CPU == nil || l.Event == nil:
			return fmt.Errorf("line %d lacks time_ns, cpu or event: %s", n, in.Bytes())
		case *l.TimeNS < last && !l.Late:
			return fmt.Errorf("line %d goes back in time, from %d, and does not say late: %s", n, last, in.Bytes())
		}
		c.events++
		c.lost += l.Lost
		if l.Late {
			c.late++
		}
		if *l.Event != "lost" && *l.Event != "corrupt" {
			c.samples++
		}
		last = max(last, *l.TimeNS)
		seen[*l.CPU] = true
	}
	if err := in.Err(); err != nil {
		return err
	}
	if !done {
		return errors.New("no summary at the end")
	}
	for _, cpu := range cpus {
		if !seen[cpu] {
			return fmt.Errorf("no event of CPU %d", cpu)
		}
	}
	fmt.Printf("%d events of %d CPUs, in order\n", c.events, len(seen))
	return nil
}
