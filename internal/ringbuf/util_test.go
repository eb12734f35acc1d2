//go:build linux && cgo

package ringbuf

import (
	"bytes"
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
)

// open opens the ring buffers of a map until the test ends, and perhaps a map of lanes.
func open(t *testing.T, fd int, lanes ...kernel.Lanes) kernel.Kernel {
	t.Helper()
	var s kernel.Setup
	if len(lanes) > 0 {
		s.Lanes = lanes[0]
	}
	k, err := (&Opener{FD: fd}).Open(s)
	require.NoError(t, err)
	t.Cleanup(func() { kernel.Discard(k) })
	for _, r := range k.Rings() {
		r.SetFields(kerneltest.RingTimeAt, kerneltest.RingCPUAt)
	}
	return k
}

// event is a copy of one.
type event struct {
	payload []byte
	time    uint64
	cpu     int
}

// read takes what is in a ring buffer, as far as the first record that is busy.
func read(t *testing.T, r *raw.Ring) (events []event, discarded int) {
	t.Helper()
	pos, head := r.Tail(), r.Head()
	require.LessOrEqual(t, head-pos, r.Size())
	list := make([]raw.Event, 64)
	for pos < head {
		n, skipped, next := r.Events(pos, head, head, list)
		for _, ev := range list[:n] {
			events = append(events, event{bytes.Clone(ev.Bytes()), ev.Time(), ev.CPU()})
		}
		discarded += skipped
		if next == pos {
			require.True(t, r.Busy(pos, head), "what else is there?")
			break
		}
		pos = next
	}
	require.LessOrEqual(t, pos, head)
	r.SetTail(pos)
	return events, discarded
}

// seen is what has come of each CPU's events.
type seen map[int]uint64

// add checks events, which are to come in the order of their CPU's numbers, all of them.
func (s seen) add(t *testing.T, events []event) {
	t.Helper()
	for _, ev := range events {
		p, err := kerneltest.CheckRing(ev.payload)
		require.NoError(t, err)
		require.Equal(t, event{ev.payload, p.Time, p.CPU}, ev)
		require.Equal(t, s[p.CPU], p.Seq, "CPU %d", p.CPU)
		s[p.CPU]++
	}
}
