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

// admit makes sources of a recording's events. That of no host is none: it has nothing but gaps.
func (h *hosts) admit(host string, l *perfdata.Live) (err error) {
	if host == "" {
		s := &Source{Live: l, Target: &bpfmaps.Target{}}
		o := h.o
		o.Name = "fleet"
		h.first, err = l.Open(o.Name, o)
		h.set.from[o.Name] = s
		return err
	}
	for _, e := range l.Events() {
		if f := h.set.flags; f.Event == "" || e.Name == f.Event {
			if err := h.open(host, l, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// open makes a source of an event.
func (h *hosts) open(host string, l *perfdata.Live, e perfdata.EventInfo) (err error) {
	f, set := h.set.flags, h.set
	label := cli.Printable(host + "/" + e.Name)
	s := &Source{Host: host, Live: l, Target: &bpfmaps.Target{Map: bpfmaps.Map{Name: e.Name}}, Label: label, btf: e.BTF}
	if err := cmp.Or(s.findHostTypes(f, e), (&Set{Sources: []*Source{s}, flags: f}).checkFilters()); err != nil {
		h.typed.Do(func() { f.note("%s: %v", label, err) }) // others may have them
	}
	for n := 2; set.from[s.Label] != nil; n++ { // its events have changed since. Only this goroutine writes it
		s.Label = fmt.Sprintf("%s#%d", label, n)
	}
	o := h.o
	o.Name = s.Label
	if s.Reader, err = l.Open(e.Name, o); err != nil {
		return err
	}
	set.mu.Lock()
	set.Sources, set.from[o.Name] = append(set.Sources, s), s
	set.mu.Unlock()
	if set.Admitted != nil {
		set.Admitted(s)
	}
	return h.stream.Add(s.Reader)
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
	case <-ctx.Done():
	}
}

// end reads what is left, after ctx: what has come is still delivered.
func (h *hosts) end(read func(*perfbuf.Batch) error) error {
	h.reader.Stop()
	return h.stream.RunBatches(context.Background(), read)
}

// conclude finds what is known of the hosts, whose readers are closed.
func (h *hosts) conclude() {
	if h.result != nil {
		return
	}
	h.first.Close()
	<-h.first.Done()
	delivered := map[string]fleet.Host{}
	for _, s := range h.set.Sources {
		d, total := delivered[s.Host], s.Reader.Stats().Total()
		delivered[s.Host] = fleet.Host{Events: d.Events + total.Samples, Lost: d.Lost + total.Lost}
	}
	result, err := h.reader.Result(delivered)
	h.result, h.err = &result, err
}

// Fleet is what is known of a fleet's hosts, after Close; nil if none was read.
func (set *Set) Fleet() *fleet.Result {
	if set.hosts == nil {
		return nil
	}
	return set.hosts.result
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
