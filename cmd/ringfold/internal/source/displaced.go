package source

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/perfbuf"
)

// Incomplete reports whether an error of Run says that what came before it is all there, and worth showing: a recording was cut, or another
// reader has taken a map.
func Incomplete(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, perfbuf.ErrDisplaced)
}

// Displaced is how many entries of the maps other readers have taken, nil if that is not known, and up to when no event is missing for
// that: 0 if none was taken. It is final after Close.
func (set *Set) Displaced() (entries *int, until uint64) {
	entries, until, _ = set.taken()
	return entries, until
}

func (set *Set) taken() (entries *int, until uint64, from []string) {
	n, known := 0, true
	for _, s := range set.Sources {
		var d perfbuf.DisplacedStats
		switch {
		case s.Flight != nil:
			d = s.Flight.Displaced()
		case s.Reader != nil:
			d = s.Reader.Stats().Displaced
		default: // the command's own rings
			continue
		}
		known = known && d.Err == nil
		if d.Entries == 0 {
			continue
		}
		if n += d.Entries; from == nil || d.OwnedUntil < until {
			until = d.OwnedUntil
		}
		from = append(from, fmt.Sprintf("%s (%d CPUs)", s, d.Entries))
	}
	if n > 0 || known {
		entries = &n
	}
	return entries, until, from
}

// displaced is an ErrDisplaced, in words for people.
type displaced string

func (d displaced) Error() string { return string(d) }

// Is makes it one.
func (displaced) Is(target error) bool { return target == perfbuf.ErrDisplaced }

// DisplacedError says which maps other readers have taken, and up to when no event is missing.
func (set *Set) DisplacedError() error {
	_, until, from := set.taken()
	at := time.Now().Add(-time.Duration(cli.Age(until))).Format("2006-01-02 15:04:05.000")
	if set.First > 0 && until >= set.First {
		at += fmt.Sprintf(", %.3f s after the first event", float64(until-set.First)/1e9)
	}
	return displaced(fmt.Sprintf("another reader has taken the map %s: events after %s may be missing. With --steal, this command takes it back",
		strings.Join(from, ", "), at))
}
