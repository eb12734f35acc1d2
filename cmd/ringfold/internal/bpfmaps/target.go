package bpfmaps

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/perfbuf"
)

// Target is a map that was chosen.
type Target struct {
	Map
	Fields
	m      *ebpf.Map
	losses *ebpf.Map // nil: not counted
}

// FD is the map's descriptor. It is open until Close.
func (t *Target) FD() int { return t.m.FD() }

// Close closes the descriptor. What was opened by it stays.
func (t *Target) Close() error { return errors.Join(t.m.Close(), t.losses.Close()) }

// prepare checks Fields, and opens the map of losses.
func (t *Target) prepare() (err error) {
	if !t.RingBuf() && (t.Stamped || t.CPUAt != nil || t.Losses != 0) {
		return fmt.Errorf("the map %s is a perf event array: stamped, cpu= and losses= are for ring buffers", t)
	}
	if t.Losses != 0 {
		if t.losses, err = ebpf.NewMapFromID(ebpf.MapID(t.Losses)); err != nil {
			return explain(fmt.Errorf("opening the map of losses %d: %w", t.Losses, err))
		}
	}
	return nil
}

// Timed reports whether its events have times, by which they can be ordered.
func (t *Target) Timed() bool { return !t.RingBuf() || t.TimeAt != nil }

// Reader opens the map's rings. Of the options, ring buffers know the Schedule only.
func (t *Target) Reader(o perfbuf.Options) (*perfbuf.Reader, error) {
	var time perfbuf.TimeSource
	switch {
	case t.Stamped:
		time = perfbuf.StampedTime(*t.TimeAt)
	case t.TimeAt != nil:
		time = perfbuf.PayloadTime(*t.TimeAt)
	}
	if !t.RingBuf() {
		o.Time = time
		return perfbuf.Open(t.FD(), o)
	}
	r := perfbuf.RingBufOptions{Time: time, Schedule: o.Schedule}
	if t.CPUAt != nil {
		r.CPU = perfbuf.PayloadCPU(*t.CPUAt)
	}
	if t.losses != nil {
		r.LossesFD = t.losses.FD()
	}
	return perfbuf.OpenRingBuf(t.FD(), r)
}
