package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// hosts are the recordings of a fleet's hosts, which become sources when they come.
type hosts struct {
	set    *Set
	o      perfbuf.Options
	reader *fleet.Reader
	first  *perfbuf.Reader // of no host
	stream *perfbuf.Stream // nil: not made yet
	typed  sync.Once
	result *fleet.Result
	err    error
}

// openFleet makes a stream of all recordings that a fleet's hosts publish.
func (set *Set) openFleet(o perfbuf.Options) (*perfbuf.Stream, error) {
	if set.Mode() == Unordered {
		return nil, errors.New("--mode unordered reads one map")
	}
	set.hosts = &hosts{set: set, o: o}
	a := *set.flags.Fleet
	a.Read.Note = cli.Notes(set.flags.cmd)
	var err error
	if set.hosts.reader, err = a.OpenReader(set.hosts.admit); err != nil {
		return nil, err
	}
	set.hosts.stream, err = perfbuf.Merge(set.flags.order(), set.hosts.first)
	set.hosts.reader.Start()
	return set.hosts.stream, err
}

// admit makes sources of a recording's events.
func (h *hosts) admit(host string, l *perfdata.Live) error {
	f := h.set.flags
	for _, e := range l.Events() {
		if host != "" && f.Event != "" && e.Name != f.Event {
			continue
		}
		s := &Source{Host: host, Live: l, Target: &bpfmaps.Target{Map: bpfmaps.Map{Name: e.Name}}, Label: cli.Printable(host + "/" + e.Name), btf: e.BTF}
		if host == "" {
			s.Label = ""
		} else if err := cmp.Or(s.findHostTypes(f, e), (&Set{Sources: []*Source{s}, flags: f}).checkFilters()); err != nil {
			h.typed.Do(func() { f.note("%s: %v", s.Label, err) }) // others may have them
		}
		o := h.o
		h.set.mu.Lock()
		for n := 2; h.set.from[s.Label] != nil; n++ { // its events have changed since
			s.Label = fmt.Sprintf("%s#%d", cli.Printable(host+"/"+e.Name), n)
		}
		h.set.mu.Unlock()
		if o.Name = s.Label; host == "" {
			o.Name = "fleet"
		}
		var err error
		if s.Reader, err = l.Open(e.Name, o); err != nil {
			return err
		}
		h.set.mu.Lock()
		if host != "" {
			h.set.Sources = append(h.set.Sources, s)
		}
		h.set.from[o.Name] = s
		h.set.mu.Unlock()
		if host == "" {
			h.first = s.Reader
			continue
		}
		if h.set.Admitted != nil {
			h.set.Admitted(s)
		}
		if err := h.stream.Add(s.Reader); err != nil {
			return err
		}
	}
	return nil
}

// findHostTypes finds the type of a host's events: the one that is named or else, if its BTF has a
// struct of the event's name, that.
func (s *Source) findHostTypes(f *Flags, e perfdata.EventInfo) error {
	if f.Type != "" {
		return s.findTypes(f, e.BTF)
	}
	if spec, err := loadForeign(e.BTF); err == nil {
		s.Decoder, _ = findType(e.Name, "", spec)
	}
	return nil
}

// Settle waits until the sources are known of a fleet's hosts that are alive, or ctx ends.
func (set *Set) Settle(ctx context.Context) {
	if set.hosts == nil {
		return
	}
	select {
	case <-set.hosts.reader.Settled():
	case <-set.hosts.reader.Done():
	case <-ctx.Done():
	}
}

// end reads what is left, after ctx: what has come is still delivered.
func (h *hosts) end(read func(*perfbuf.Batch) error) error {
	h.reader.Stop()
	return h.stream.RunBatches(context.Background(), read)
}

// close ends reading, and closes the readers.
func (h *hosts) close() {
	if h.reader == nil || h.result != nil {
		return
	}
	result, err := h.reader.Result()
	h.result, h.err = &result, err
	h.first.Close()
	<-h.first.Done()
}

// Fleet is what is known of a fleet's hosts, after Close; nil if none was read.
func (set *Set) Fleet() *fleet.Result {
	if set.hosts == nil {
		return nil
	}
	return set.hosts.result
}

// FleetDelay is Reader.Delay of the fleet's.
func (set *Set) FleetDelay(q float64) (ns int64, ok bool) {
	if set.hosts == nil || set.hosts.reader == nil {
		return 0, false
	}
	d, ok := set.hosts.reader.Delay(q)
	return int64(d), ok
}

// All returns the sources: those of hosts come while they are read. It may be called from anywhere.
func (set *Set) All() []*Source {
	set.mu.Lock()
	defer set.mu.Unlock()
	return slices.Clone(set.Sources)
}

// source returns the one whose reader has a name.
func (set *Set) source(name string) *Source {
	if set.last != nil && set.lastName == name {
		return set.last
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	set.last, set.lastName = set.from[name], name
	return set.last
}
