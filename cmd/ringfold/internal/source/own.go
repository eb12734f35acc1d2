package source

import (
	"fmt"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
)

// ChooseOne is Choose for a command that opens a flight recorder's map itself, and looks for
// Trigger. An error says that there are several maps, or that it is another kind.
func (f *Flags) ChooseOne() (*Set, error) {
	set, err := f.Choose()
	if err != nil {
		return nil, err
	}
	switch {
	case len(set.Sources) > 1:
		err = fmt.Errorf("%s and %s: choose one", set.Sources[0], set.Sources[1])
	case set.Sources[0].RingBuf() && !set.Sources[0].Overwrites:
		err = fmt.Errorf("%s is a ring buffer without BPF_F_RB_OVERWRITE, which the kernel never overwrites: choose a perf event array", set.Sources[0])
	case !set.Sources[0].Timed():
		err = fmt.Errorf("%s is a ring buffer, whose events have no time but their own: say where, by time=OFFSET behind the map", set.Sources[0])
	}
	if err != nil {
		set.Close()
		return nil, err
	}
	set.from[""] = set.Sources[0] // events that no reader has read
	return set, nil
}

// Own is a set of one reader, of a map that the command has made itself. Close closes the reader.
func (f *Flags) Own(name string, r *perfbuf.Reader) *Set {
	s := &Source{Target: &bpfmaps.Target{Map: bpfmaps.Map{Name: name}}, Reader: r}
	return &Set{Sources: []*Source{s}, flags: f, from: map[string]*Source{r.Options().Name: s}}
}

// Processes is such a set of process events, which are decoded, and its stream.
func (f *Flags) Processes(r *perfbuf.Reader) (*Set, *perfbuf.Stream, error) {
	set := f.Own("process", r)
	spec, err := lifecycle.Types()
	if err != nil {
		return nil, nil, err
	}
	if set.Sources[0].Decoder, err = findType("process", "ringfold's own BTF", spec); err != nil {
		return nil, nil, err
	}
	in, err := perfbuf.Merge(f.order(), r)
	return set, in, err
}

// Matches counts an event, and reports whether it matches the flags.
func (set *Set) Matches(ev perfbuf.Event) bool {
	_, ok := set.take(ev)
	return ok
}

// Triggers reports whether an event is a sample that matches Trigger. It does not count.
func (set *Set) Triggers(ev perfbuf.Event) bool {
	from := set.source(ev.Source())
	return ev.Kind() == perfbuf.KindSample && set.flags.trigger.match(Event{ev, from, set.decode(from.Decoder, ev)}, ev.Time())
}

// Note prints a line to stderr.
func (set *Set) Note(format string, args ...any) { set.flags.note(format, args...) }
