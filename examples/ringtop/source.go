package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ringfold/ringfold/internal/perfmaps"
	"github.com/ringfold/ringfold/perfbuf"
)

// source is whose map is looked at: the load's or another program's.
type source struct {
	name    string // for people
	mapFD   int
	outputs perfbuf.OutputCounts
	load    *load            // or
	target  *perfmaps.Target // either
}

func openSource(c config) (*source, error) {
	if c.own() {
		l, err := newLoad()
		if err != nil {
			return nil, err
		}
		return &source{name: fmt.Sprintf("own load, %s/s and CPU", count(uint64(c.load))), mapFD: l.eventsFD(), load: l,
			outputs: perfbuf.OutputCounts{MapFD: l.outputsFD()}}, nil
	}
	t, err := c.target.Open()
	if err != nil {
		return nil, err
	}
	return &source{name: t.String(), mapFD: t.FD(), target: t}, nil
}

// displaced notes how many rings of another reader these have displaced.
func (s *source) displaced(rings int) {
	if rings > 0 {
		s.name += fmt.Sprintf(", taken from a reader of %d rings", rings)
	}
}

// start begins with the load, if it is ours.
func (s *source) start(perSecond int, failed func(error)) error {
	if s.load == nil {
		return nil
	}
	return s.load.start(perSecond, failed)
}

// end ends the load. Others go on.
func (s *source) end() {
	if s.load != nil {
		s.load.end()
	}
}

// Close gives the map back.
func (s *source) Close() {
	if s.load != nil {
		s.load.Close()
	} else {
		s.target.Close()
	}
}

// list prints the perf event arrays that there are.
func list(out io.Writer) error {
	maps, err := perfmaps.List()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tENTRIES\tPROCESSES\tPROGRAMS\tPINS")
	for _, m := range maps {
		fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\t%s\n", m.ID, m.Name, m.MaxEntries, join(m.Processes), join(m.Programs), strings.Join(m.Pins, ", "))
	}
	return table.Flush()
}

func join[T fmt.Stringer](all []T) string {
	if len(all) == 0 {
		return "-"
	}
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = one.String()
	}
	return strings.Join(words, ", ")
}
