package top

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/perfbuf"
)

// source is whose maps are looked at: the load's or other programs'.
type source struct {
	name    string // for people
	names   []string
	open    []opener
	load    *load             // either
	targets []*bpfmaps.Target // or
}

func openSource(c config) (*source, error) {
	if c.own() {
		l, err := newLoad()
		if err != nil {
			return nil, err
		}
		open := func(o perfbuf.Options) (*perfbuf.Reader, error) {
			o.Outputs = perfbuf.OutputCounts{MapFD: l.outputsFD()}
			return perfbuf.Open(l.eventsFD(), o)
		}
		return &source{name: fmt.Sprintf("own load, %s/s and CPU", count(uint64(c.load))), names: []string{""}, open: []opener{open}, load: l}, nil
	}
	targets, err := c.target.Open()
	if err != nil {
		return nil, err
	}
	s := &source{targets: targets}
	var names []string
	for _, t := range targets {
		names, s.open = append(names, t.String()), append(s.open, t.Reader)
	}
	s.name, s.names = strings.Join(names, ", "), names
	if len(names) == 1 {
		s.names = []string{""}
	}
	return s, nil
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

// Close gives the maps back.
func (s *source) Close() {
	if s.load != nil {
		s.load.Close()
	} else {
		for _, t := range s.targets {
			t.Close()
		}
	}
}

// list prints the perf event arrays and ring buffers that there are.
func list(out io.Writer) error {
	maps, err := bpfmaps.List()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tTYPE\tNAME\tENTRIES\tPROCESSES\tPROGRAMS\tPINS")
	for _, m := range maps {
		fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%s\t%s\t%s\n", m.ID, m.Type, m.Name, m.MaxEntries, join(m.Processes), join(m.Programs), strings.Join(m.Pins, ", "))
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
