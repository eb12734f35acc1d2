package bpfmaps

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/perfbuf"
)

// Target is a map that was chosen.
type Target struct {
	Map
	Fields
	m     *ebpf.Map
	lanes *ebpf.Map // nil: not counted
}

// Open opens a map for each selector, or, without any, all those of a process that programs use. Without
// a process too, that is the only map that programs use. A process, named by its comm or pid, also says
// whose maps names mean. Unless it steals, Open fails with a *BusyError if a map may have a reader. If it
// fails, no map is open.
func Open(selectors []Selector, process string, steal bool) (targets []*Target, err error) {
	defer func() {
		if err != nil {
			for _, t := range targets {
				t.Close()
			}
		}
	}()
	if len(selectors) == 0 && process != "" {
		all, err := List(process)
		if err != nil {
			return nil, err
		}
		for _, m := range used(all) {
			selectors = append(selectors, Selector{ID: m.ID})
		}
	} else if len(selectors) == 0 {
		selectors = []Selector{{}}
	}
	for _, s := range selectors {
		m, err := s.find(process)
		if err != nil {
			return targets, err
		}
		t := &Target{m: m, Fields: s.Fields}
		targets = append(targets, t)
		if err := t.prepare(); err != nil {
			return targets, err
		}
		if slices.ContainsFunc(targets[:len(targets)-1], func(other *Target) bool { return other.ID == t.ID }) {
			return targets, fmt.Errorf("the map %s is chosen twice: choose it once", t)
		}
		if !steal && !t.Overwrites { // any number of recorders may have that
			if err := t.free(); err != nil {
				return targets, err
			}
		}
	}
	return targets, nil
}

// prepare describes the map, checks Fields, and opens the map of lanes.
func (t *Target) prepare() (err error) {
	if t.Map, err = mapOf(t.m); err != nil {
		return fmt.Errorf("looking at the map: %w", err)
	}
	if t.Map.Type == "" {
		return fmt.Errorf("map %s is a map of the type %v, not a perf event array, nor a BPF ring buffer or a map with such: "+
			"ringfold list shows those", t, t.m.Type())
	}
	// A pinned map may be read without the privilege to look at others' programs.
	one := []Map{t.Map}
	if err := describe(one); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	t.Map = one[0]
	if !t.RingBuf() && (t.Stamped || t.CPUAt != nil) {
		return fmt.Errorf("the map %s is a perf event array: stamped and cpu= are for ring buffers", t)
	}
	if t.LanesID != 0 {
		if t.lanes, err = ebpf.NewMapFromID(ebpf.MapID(t.LanesID)); err != nil {
			return explain(fmt.Errorf("opening the map of lanes %d: %w", t.LanesID, err))
		}
	}
	return nil
}

// free returns a *BusyError if the map may have a reader. While others hold the map, it looks again, for
// 200 ms at most: to list maps, as List and bpftool do, is to hold each for a moment.
func (t *Target) free() error {
	for range 10 {
		if len(t.Others()) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
		now := []Map{{ID: t.ID, Type: t.Map.Type}}
		findProcesses(now)
		t.Processes = slices.DeleteFunc(t.Processes, func(p Process) bool {
			return !slices.ContainsFunc(now[0].Processes, func(q Process) bool { return q.PID == p.PID })
		})
	}
	if len(t.Others()) > 0 || t.Unseen != "" {
		return &BusyError{t.Map}
	}
	return nil
}

// FD is the map's descriptor. It is open until Close.
func (t *Target) FD() int { return t.m.FD() }

// Close closes the descriptor. Readers that were opened by it stay open.
func (t *Target) Close() error { return errors.Join(t.m.Close(), t.lanes.Close()) }

// Timed reports whether its events have times, by which they can be ordered.
func (t *Target) Timed() bool { return !t.RingBuf() || t.TimeAt != nil }

// Time is that of its events.
func (t *Target) Time() (time perfbuf.TimeSource) {
	switch {
	case t.Stamped:
		time = perfbuf.StampedTime(*t.TimeAt)
	case t.TimeAt != nil:
		time = perfbuf.PayloadTime(*t.TimeAt)
	}
	return time
}

// CPU is that of its events.
func (t *Target) CPU() (cpu perfbuf.CPUSource) {
	if t.CPUAt != nil {
		cpu = perfbuf.PayloadCPU(*t.CPUAt)
	}
	return cpu
}

// Reader opens the map's rings. Of the options, ring buffers take the Name and the Schedule only.
func (t *Target) Reader(o perfbuf.Options) (*perfbuf.Reader, error) {
	open := perfbuf.Open
	if t.RingBuf() {
		open, o = perfbuf.OpenRingBuf, perfbuf.Options{Name: o.Name, Schedule: o.Schedule}
	}
	o.Time, o.CPU, o.Lanes = t.Time(), t.CPU(), t.Lanes
	if t.lanes != nil {
		o.LanesFD = t.lanes.FD()
	}
	return open(t.FD(), o)
}
