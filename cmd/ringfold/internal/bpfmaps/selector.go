package bpfmaps

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Selector says which map, and what is in its payloads. One of ID, Name and Pin is set, or none for the
// only map that programs use.
type Selector struct {
	ID   uint32
	Name string
	Pin  string // a path
	Fields
}

// Fields says what is in a map's payloads.
type Fields struct {
	TimeAt, CPUAt *int   // where time and CPU are, in bytes; nil: nowhere
	Stamped       bool   // the time is taken after the record is reserved, in a ring buffer
	LanesID       uint32 // of the map of bpf/perfbuf_lanes.h in which programs count; 0: none
	Lanes         []int  // their shares of a ring, in percent
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
		case key == "lanes":
			if f.LanesID, f.Lanes, err = parseLanes(value); err != nil {
				return "", f, fmt.Errorf("%q: %w", word, err)
			}
		case key != "time" && key != "cpu":
			return "", f, fmt.Errorf("%q: behind a map come time=OFFSET, cpu=OFFSET, stamped, lanes=ID:PERCENT:... and type=NAME", word)
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

// parseLanes reads the id of a map of lanes, and behind colons the lanes' shares in percent.
func parseLanes(value string) (id uint32, shares []int, err error) {
	words := strings.Split(value, ":")
	if id, err = ParseID(words[0]); err != nil {
		return 0, nil, err
	}
	for _, word := range words[1:] {
		percent, err := strconv.Atoi(word)
		if err != nil || percent < 1 || percent > 100 {
			return 0, nil, fmt.Errorf("a lane's share of %q: use 1 to 100, in percent of a ring", word)
		}
		shares = append(shares, percent)
	}
	return id, shares, nil
}
