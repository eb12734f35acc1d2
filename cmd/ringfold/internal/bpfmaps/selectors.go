package bpfmaps

import (
	"errors"
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
