// Checkstream reads what "ordered -json" printed and fails unless it is one
// ordered stream of all CPUs: each line parses, times never decrease except on
// lines that say they are late, every online CPU is there, and the summary on
// the last line agrees with the lines before it.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// A line is an event, or the summary.
type line struct {
	TimeNS  *uint64 `json:"time_ns"`
	CPU     *int    `json:"cpu"`
	Event   *string `json:"event"`
	Late    bool    `json:"late"`
	Summary *struct {
		Events     *int `json:"events"`
		OutOfOrder *int `json:"out_of_order"`
	} `json:"summary"`
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
	cpus, err := parseCPUs(online)
	if err != nil {
		return err
	}
	var (
		events, n int
		last      uint64
		seen      = map[int]bool{}
		done      bool
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
			if l.Summary.Events == nil || *l.Summary.Events != events {
				return fmt.Errorf("%d events, but the summary is %s", events, in.Bytes())
			}
			if l.Summary.OutOfOrder == nil || *l.Summary.OutOfOrder != 0 {
				return fmt.Errorf("out of order: %s", in.Bytes())
			}
			continue
		case l.TimeNS == nil || l.CPU == nil || l.Event == nil:
			return fmt.Errorf("line %d lacks time_ns, cpu or event: %s", n, in.Bytes())
		case *l.TimeNS < last && !l.Late:
			return fmt.Errorf("line %d goes back in time, from %d, and does not say late: %s", n, last, in.Bytes())
		}
		events++
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
	fmt.Printf("%d events of %d CPUs, in order\n", events, len(seen))
	return nil
}

// parseCPUs reads the kernel's list format: "0-3,6".
func parseCPUs(s string) (cpus []int, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err1 := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("online CPUs %q: %w", s, err)
		}
		for cpu := a; cpu <= b; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
