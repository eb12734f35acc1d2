package bpfmaps

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// Selectors says which maps.
type Selectors struct {
	Maps    []Selector // none: the only one that programs use, or all of Process
	Process string     // comm or pid of a process that holds them; empty: of any, or none
	Steal   bool       // take them over, even if somebody reads them
}

// Fields says what is in a map's payloads.
type Fields struct {
	TimeAt, CPUAt *int   // where time and CPU are, in bytes; nil: nowhere
	Stamped       bool   // the time is taken after the record is reserved, in a ring buffer
	Losses        uint32 // id of the map in which programs count with bpf/perfbuf_ringbuf.h; 0: none
	Type          string // of BTF
}

// Flags defines -id, -name, -pin and -steal. FlagsUsage describes them.
func (s *Selectors) Flags(fs *flag.FlagSet) {
	add := func(flag string, set func(sel *Selector, value string) error) {
		fs.Func(flag, "", func(v string) (err error) {
			var sel Selector
			if v, sel.Fields, err = ParseFields(v); err != nil {
				return err
			}
			if err = set(&sel, v); err == nil {
				s.Maps = append(s.Maps, sel)
			}
			return err
		})
	}
	add("id", func(sel *Selector, v string) (err error) { sel.ID, err = ParseID(v); return err })
	add("name", func(sel *Selector, v string) error { sel.Name = v; return nil })
	add("pin", func(sel *Selector, v string) error { sel.Pin = v; return nil })
	fs.BoolVar(&s.Steal, "steal", false, "")
}

// ParseFields splits "events,time=8,cpu=16" into the map and its Fields.
func ParseFields(s string) (which string, f Fields, err error) {
	words := strings.Split(s, ",")
	if words[0] == "" {
		return "", f, errors.New("which map is missing")
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		offset, bad := strconv.Atoi(value)
		switch {
		case word == "stamped":
			f.Stamped = true
		case key == "type" && value != "":
			f.Type = value
		case key == "losses":
			if f.Losses, err = ParseID(value); err != nil {
				return "", f, fmt.Errorf("%q: %w", word, err)
			}
		case key != "time" && key != "cpu":
			return "", f, fmt.Errorf("%q: behind a map come time=OFFSET, cpu=OFFSET, stamped, losses=ID and type=NAME", word)
		case bad != nil || offset < 0:
			return "", f, fmt.Errorf("%q: an offset is a number of bytes from 0 on", word)
		case key == "time":
			f.TimeAt = &offset
		default:
			f.CPUAt = &offset
		}
	}
	if f.Stamped && f.TimeAt == nil {
		return "", f, errors.New("stamped is about the time: give time=OFFSET")
	}
	return words[0], f, nil
}

// ParseID reads an id, which is never 0.
func ParseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 0 {
		return 0, errors.New("an id is a number from 1 on")
	}
	return uint32(n), nil
}

// FlagsUsage are lines for a program's usage text.
const FlagsUsage = `  -id N          the perf event array or BPF ring buffer with this id, or the array or hash of ring buffers
  -name NAME     the one of this name
  -pin PATH      the one that is pinned there; none of these three: the only one that programs use
                 Each may be given several times, for several maps. Behind a map may come, with a comma each:
                   time=8   payloads have the time there, in bytes: ns of CLOCK_MONOTONIC. Ring buffers have no other
                   cpu=16   and the CPU (ring buffers)
                   stamped  the time was taken after the reservation, as bpf/perfbuf_ringbuf.h does (ring buffers)
                   losses=7 the id of the map in which programs count with that what is lost (ring buffers)
  -steal         take them over, even if somebody seems to read them: a reader of a perf event array gets nothing
                 any more, also after this program has ended, until it is started anew; one of a ring buffer misses
                 what is read here
`

// Open opens the maps, each as a Selector does. None is open if it fails.
func (s Selectors) Open() (targets []*Target, err error) {
	maps, err := s.selectors()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, t := range targets {
				t.Close()
			}
		}
	}()
	for _, sel := range maps {
		sel.Steal, sel.Process = s.Steal, s.Process
		t, err := sel.Open()
		if err != nil {
			return targets, err
		}
		for _, other := range targets {
			if other.ID == t.ID {
				t.Close()
				return targets, fmt.Errorf("the map %s is chosen twice: choose it once", t)
			}
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// selectors chooses one for each map.
func (s Selectors) selectors() (maps []Selector, err error) {
	switch {
	case len(s.Maps) > 0:
		return s.Maps, nil
	case s.Process == "":
		return []Selector{{}}, nil
	}
	all, err := List()
	if err != nil {
		return nil, err
	}
	held, err := HeldBy(all, s.Process)
	for _, m := range used(held) {
		maps = append(maps, Selector{ID: m.ID})
	}
	return maps, err
}
