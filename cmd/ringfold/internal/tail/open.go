package tail

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/perfbuf"
)

// source is a map that is read.
type source struct {
	*bpfmaps.Target
	file    string // a recording: the Target has a name only
	reader  *perfbuf.Reader
	decoder *decoder // nil without a type
	label   string   // which map, if there are several
}

// events is what sources are read by: a stream of all, or the reader of the only one.
type events interface {
	Wait(ctx context.Context) error
	ForEach(f func(perfbuf.Event) error) error
	Shutdown(ctx context.Context, f func(perfbuf.Event) error) error
}

// openSources takes the maps over, each once everything else about them is known to be right.
func openSources(c config) (all []*source, err error) {
	if c.file != "" {
		return openFile(c)
	}
	targets, err := c.which.Open()
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		all = append(all, &source{Target: t})
	}
	defer func() {
		if err != nil {
			closeSources(all)
		}
	}()
	names := map[string]int{}
	for _, s := range all {
		names[s.Name]++
	}
	for _, s := range all {
		if len(all) > 1 {
			if s.label = s.Name; s.Name == "" || names[s.Name] > 1 {
				s.label = s.String()
			}
			if !s.Timed() {
				return all, fmt.Errorf("the ring buffer %s has no times, by which events of several maps are ordered: say where in payloads they are, "+
					"as in -name %s,time=0, or read it alone", s, s.Name)
			}
		}
		if c.record != "" && (!s.Timed() || s.RingBuf() && s.CPUAt == nil) {
			return all, fmt.Errorf("-record: events of a recording have a time and a CPU: say where the ring buffer %s has them, as in -name %s,time=0,cpu=8", s, s.Name)
		}
		typ := s.Fields.Type
		if typ == "" {
			typ = c.typ
		}
		if typ != "" { // before anybody is silenced for nothing
			if s.decoder, err = newDecoder(c, typ, s.Map); err != nil {
				return all, err
			}
			s.decoder.exact = s.RingBuf()
		}
	}
	for _, s := range all {
		if s.reader, err = s.Reader(perfbuf.Options{RingBytes: c.ringBytes}); err != nil {
			return all, err
		}
	}
	return all, nil
}

func closeSources(all []*source) {
	for _, s := range all {
		if s.reader != nil {
			s.reader.Close()
		}
		if s.file == "" {
			s.Close()
		}
	}
}

// merge makes one stream of all. What has no time is read as it comes.
func merge(c config, all []*source) (events, error) {
	if !all[0].Timed() {
		if c.modeGiven {
			return nil, errors.New("-mode and -slack are about the order of time, but the ring buffer has no times: say where in payloads they are, as in -name events,time=0")
		}
		return all[0].reader, nil
	}
	var readers []*perfbuf.Reader
	for _, s := range all {
		readers = append(readers, s.reader)
	}
	return perfbuf.Merge(perfbuf.OrderOptions{Mode: c.order()}, readers...)
}

// announce tells what is read, and who is silenced by that.
func announce(note func(string, ...any), s *source) {
	if s.file != "" {
		note("reading the recording %s", s)
		return
	}
	var others []string
	for _, p := range s.Others() {
		others = append(others, p.String())
	}
	note("reading the map %s", s)
	if len(s.Programs) == 0 {
		note("no program that could be seen uses it: nothing may come")
	}
	displaced := s.reader.Stats().ReplacedEntries
	switch who := strings.Join(others, ", "); {
	case who != "" && s.RingBuf():
		note("%s holds it too, and misses what is read here, if it reads", who)
	case displaced > 0 && who != "":
		note("taken over: %s held it, and its reader receives nothing until it is restarted or takes the map back", who)
	case displaced > 0:
		note("taken over: its previous reader receives nothing until it is restarted or takes the map back (or it has ended: the map may keep its entries)")
	case who != "":
		note("%s held it, and had no ring in it: nobody is silenced", who)
	}
}
