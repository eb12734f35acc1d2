// Package source is what the commands of ringfold read: it chooses maps or recordings by the command line,
// opens them, decodes and filters their events, and reads until there were enough.
//
// flags.go and args.go read the command line, complete.go completes it, source.go opens maps, file.go
// recordings, own.go is for commands with rings of their own, run.go reads, command.go runs a command
// meanwhile. btf.go finds the type of events, foreign.go checks the BTF of recordings first, members.go
// looks up fields, decode.go and value.go turn payloads into fields; filter.go reads a filter, match.go
// applies it.
//
//	var f source.Flags
//	cmd := &cobra.Command{Use: "tail " + source.Usage, Args: f.Args, ...}
//	f.Which(cmd.Flags()) // and f.What, f.Order, f.Types; then f.Complete(cmd)
//	...
//	set, err := f.Choose()
//	defer set.Close()
//	in, err := set.Open(perfbuf.Options{})
//	set.Announce()
//	err = set.Run(ctx, in, func(ev source.Event) error {...}, flush)
//	return set.Finish(err, func() error {...}) // prints the summary
package source

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// Source is a map or a recording that is read.
type Source struct {
	*bpfmaps.Target                // of a recording, it has a name only
	File            string         // the recording; empty: a map, or a host's
	Host            string         // of a fleet
	Live            *perfdata.Live // its recording
	Label           string         // which one, if there are several; else empty
	Decoder         *Decoder       // nil without a type
	Reader          *perfbuf.Reader
	Flight          *flight.Recorder // has the map instead of Reader
	btf             []byte           // of the recording
}

// String is such as "events (id 12)", or "events.data (event events)".
func (s *Source) String() string {
	switch {
	case s.Live != nil:
		return s.Label
	case s.File == "":
		return s.Target.String()
	}
	return fmt.Sprintf("%s (event %s)", s.File, cli.Printable(s.Name))
}

// Stats returns what the reader counts. A recording has no rings, so none has a size or is full.
func (s *Source) Stats() perfbuf.Stats {
	stats := s.Reader.Stats()
	for i := range stats.Rings {
		if r := &stats.Rings[i]; s.Recorded() {
			r.Size, r.Used, r.HighWater = 0, 0, 0
		}
	}
	return stats
}

// Recorded reports whether it is a recording, of a file or of a host.
func (s *Source) Recorded() bool { return s.File != "" || s.Live != nil }

// Set is all that is read at a time.
type Set struct {
	Sources []*Source // of a fleet, only what All returns may be read before Close
	// Admitted is called with each source, when it is open and before its first event. It may be nil.
	Admitted func(*Source)
	// First is the time of the first event that came, 0 before.
	First uint64
	// Samples have matched the filter, Filtered not; Run counts them.
	Samples, Filtered uint64
	// Command is the one that was run, nil without one.
	Command *Command

	flags         *Flags
	from          map[string]*Source // by the reader's name
	told          bool               // that events are shorter than their type
	began         time.Time
	first, latest uint64 // times of events that matched

	hosts    *hosts     // of a fleet
	mu       sync.Mutex // guards Sources and from, where those of a fleet come
	last     *Source    // that an event was from, and the name of its reader
	lastName string
}

// Choose finds what the command line names, and whatever may be wrong, before a map is taken over and
// its reader silenced for nothing. The maps' descriptors are open until Close. A set of a map that a
// flight recorder opens itself, and of a trigger, is one of ChooseOne.
func (f *Flags) Choose() (*Set, error) {
	set := &Set{flags: f, from: map[string]*Source{}}
	find := set.findMaps
	switch {
	case f.Fleet != nil:
		find = func() error { return nil }
	case f.recorded():
		find = set.findFiles
	}
	err := f.Ready()
	if err == nil {
		err = find()
	}
	if err == nil && f.Fleet == nil {
		set.label()
		err = set.checkFilters()
	}
	if err != nil {
		set.Close()
		return nil, err
	}
	return set, nil
}

func (set *Set) findMaps() error {
	f := set.flags
	targets, err := bpfmaps.Open(f.Maps, f.Process, f.Steal)
	if err != nil {
		return err
	}
	for _, t := range targets {
		set.Sources = append(set.Sources, &Source{Target: t})
	}
	for _, s := range set.Sources {
		if f.CPUs != nil && s.RingBuf() && s.CPUAt == nil {
			return fmt.Errorf("--cpus: say where the ring buffer %s has the CPU, as in name %s,cpu=8", s, s.Name)
		}
		typ := s.Fields.Type
		if typ == "" {
			typ = f.Type
		}
		if typ != "" {
			if s.Decoder, err = f.newDecoder(typ, s.Map); err != nil {
				return err
			}
			s.Decoder.exact = s.RingBuf()
		}
	}
	return nil
}

// TakeOver opens a reader of each map or recording. Of the options, it sets RingBytes and CPUs. It may
// block for as long as a recording is read once.
func (set *Set) TakeOver(o perfbuf.Options) (err error) {
	if set.flags.Fleet != nil {
		return errors.New("recordings of hosts have no rings to look at: read them by tail, stat, trace, metrics or record")
	}
	o.RingBytes, o.CPUs = int(set.flags.RingSize), set.flags.CPUs
	for _, s := range set.Sources {
		o.Name = s.Called()
		if s.File != "" {
			s.Reader, err = set.replay(s, o)
		} else {
			s.Reader, err = s.Target.Reader(o)
		}
		if err != nil {
			return err
		}
		set.from[s.Reader.Options().Name] = s
		if set.Admitted != nil {
			set.Admitted(s)
		}
	}
	return nil
}

// Open makes one stream of all, and takes the maps over for that, as TakeOver does. What has no time is
// read as it comes, alone.
func (set *Set) Open(o perfbuf.Options) (*perfbuf.Stream, error) {
	if set.flags.Fleet != nil {
		return set.openFleet(o)
	}
	if set.Mode() == Unordered && len(set.Sources) > 1 && set.Timed() {
		return nil, errors.New("--mode unordered reads one map: choose one")
	}
	ordered := set.Mode() != Unordered || len(set.Sources) > 1
	for _, s := range set.Sources {
		if ordered && !s.Timed() {
			return nil, fmt.Errorf("the ring buffer %s has no times, by which events are ordered: say where in payloads they are, as in name %s,time=0, "+
				"or read it alone without --mode and --slack", s, s.Name)
		}
	}
	if err := set.TakeOver(o); err != nil {
		return nil, err
	}
	order := set.flags.order()
	if !ordered {
		order = perfbuf.StreamOptions{Order: perfbuf.Unordered()}
	}
	var readers []*perfbuf.Reader
	for _, s := range set.Sources {
		readers = append(readers, s.Reader)
	}
	return perfbuf.Merge(order, readers...)
}

// label labels the sources, if there are several: each by the shortest of its names that no other has.
func (set *Set) label() {
	if len(set.Sources) < 2 {
		return
	}
	for _, name := range []func(*Source) string{(*Source).String, (*Source).base, func(s *Source) string { return s.Name }} {
		n := map[string]int{}
		for _, s := range set.Sources {
			n[name(s)]++
		}
		for _, s := range set.Sources {
			if short := name(s); s.Label == "" || short != "" && n[short] == 1 {
				s.Label = short
			}
		}
	}
}

// Called is the name of its reader, which no other source has: names of maps need not differ, but labels do.
func (s *Source) Called() string { return cmp.Or(s.Label, s.Name) }

// base is the name of a recording without its directory, empty of a map.
func (s *Source) base() string {
	if s.File == "" {
		return ""
	}
	return filepath.Base(s.File)
}

// Timed reports whether all have times, by which they can be ordered.
func (set *Set) Timed() bool {
	return !slices.ContainsFunc(set.All(), func(s *Source) bool { return !s.Timed() })
}

// Mode is how events are ordered.
func (set *Set) Mode() Mode {
	switch {
	case set.flags.Mode != "":
		return set.flags.Mode
	case set.Timed():
		return Exact
	}
	return Unordered
}

// Announce tells on stderr what is read, and who is silenced by that.
func (set *Set) Announce() {
	if set.flags.Fleet != nil {
		set.flags.note("reading the stream %s", set.flags.Fleet.Stream)
	}
	for _, s := range set.All() {
		s.announce(set.flags.note)
	}
}

func (s *Source) announce(note func(string, ...any)) {
	switch {
	case s.Live != nil:
		return
	case s.File != "":
		note("reading the recording %s", s)
		return
	}
	note("reading the map %s", s)
	if len(s.Programs) == 0 {
		note("no program that could be seen uses it: nothing may come")
	}
	if s.Reader == nil {
		return // the command's own rings
	}
	displaced := s.Reader.Stats().ReplacedEntries
	switch who := s.Others().String(); {
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

// Events are the sources as a perfdata.Recorder wants them: each with its name, and the BTF of the type
// that it is decoded by. Without a type, it is all BTF that the map's programs have, or the recording
// that is copied: so one can be named later.
func (set *Set) Events() (events []perfdata.EventInfo, err error) {
	for _, s := range set.All() {
		e := perfdata.EventInfo{Name: s.Called()}
		if !s.Recorded() && !s.Timed() {
			return nil, fmt.Errorf("events of a recording have a time: say where the ring buffer %s has it, as in name %s,time=0", s, s.Name)
		}
		switch {
		case s.Decoder != nil:
			e.BTF, err = encode([]btf.Type{s.Decoder.named})
		case s.Recorded():
			e.BTF = s.btf
		default:
			e.BTF, err = encode(typesOf(s.Programs))
		}
		if err != nil {
			return nil, fmt.Errorf("the BTF of %s: %w", s, err)
		}
		events = append(events, e)
	}
	return events, nil
}
