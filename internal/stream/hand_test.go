package stream

import (
	"encoding/binary"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

const (
	forever = 1 << 62    // a ceiling above all times of these tests
	all     = noKey - 1  // a watermark that lets everything pass
	wrap    = 1<<32 - 64 // where a ring's counters may start
	large   = 256 << 10  // of a ring: 4 blocks
	block   = 64 << 10   // of memory for copies

)

// hand is a merger of rings that a test writes by hand.
type hand struct {
	*merger
	t       testing.TB
	writers []writer
}

func byHand(t testing.TB, spill int, rings ...writer) *hand {
	h := &hand{t: t, writers: rings, merger: newMerger(spill, func(int, uint64) {})}
	for _, r := range rings {
		ring := r.Raw()
		if _, ok := r.(*ringtest.RingBuf); ok {
			ring.SetFields(0, -1)
		}
		h.add(&Ring{Raw: ring})
	}
	return h
}

// perfRings makes perf rings whose counters start at these offsets.
func perfRings(size int, starts ...uint64) (rings []writer) {
	for _, start := range starts {
		rings = append(rings, ringtest.New(size, raw.LayoutRawTime, start))
	}
	return rings
}

func (h *hand) perf(i int) *ringtest.Ring { return h.writers[i].(*ringtest.Ring) }

// write writes samples of 12 payload bytes: 32 with the header of a perf ring.
func (h *hand) write(i int, times ...uint64) {
	for _, time := range times {
		switch r := h.writers[i].(type) {
		case *ringtest.Ring:
			require.NoError(h.t, r.Output(time, ringtest.Payload(time, 12)))
		case *ringtest.RingBuf:
			h.reserve(i, time, 12).Commit(0)
		}
	}
}

// reserve begins a record of n bytes in ring buffer i, with its time first.
func (h *hand) reserve(i int, time uint64, n int) ringtest.Record {
	r, err := h.writers[i].(*ringtest.RingBuf).Reserve(n)
	require.NoError(h.t, err)
	r.Write(0, binary.NativeEndian.AppendUint64(nil, time))
	return r
}

func (h *hand) scan(i int) findings { return h.rings[i].scanTo(h.writers[i].Head(), forever, 0) }

// scanned writes samples and scans them.
func (h *hand) scanned(i int, times ...uint64) {
	h.write(i, times...)
	h.scan(i)
}

// out has the fields of an item that most tests compare.
type out struct {
	ring int
	kind raw.Kind
	key  uint64
	late bool
}

func samples(ring int, keys ...uint64) (want []out) {
	for _, key := range keys {
		want = append(want, out{ring, raw.Sample, key, false})
	}
	return want
}

// round requires these items of a round up to the end.
func (h *hand) round(want ...out) {
	h.t.Helper()
	var got []out
	h.begin(all)
	for it := next(h.merger); it != nil; it = next(h.merger) {
		got = append(got, out{it.Ring, it.Kind, it.Key, it.Late})
	}
	h.end()
	require.Equal(h.t, want, got)
}

// drained requires that all bytes of the rings are free.
func (h *hand) drained() {
	h.t.Helper()
	for i, r := range h.writers {
		require.Equal(h.t, r.Head(), r.Tail(), "ring %d", i)
	}
	require.Zero(h.t, h.spilled())
}

// delivery is a copy of the fields of an item from next or batch.
type delivery struct {
	raw.Odd
	Ring int
	Key  uint64
	Late bool
	Data []byte // not a copy

	Lateness uint64
}

func deliveryOf(ev raw.Event, ring int, key, off, size, lateness uint64) *delivery {
	it := &delivery{Odd: *ev.Odd(), Ring: ring, Key: key, Late: ev.Late(), Data: ev.Bytes(), Lateness: lateness}
	it.Kind, it.CPU, it.Time, it.Off, it.Size = ev.Kind(), ev.CPU(), ev.Time(), off, size
	return it
}

// Allocating them each time takes most of the time with -race.
var batch, batchRings = make([]raw.Event, batchSize), make([]int, batchSize)

// next returns the next item as the first of a batch, where possible, and undoes the others.
func next(m *merger) *delivery {
	n := m.batch(batch[:1+m.last%uint64(batchSize)], batchRings)
	if n == 0 {
		it := m.next()
		if it == nil {
			return nil
		}
		return deliveryOf(it.event, it.ring, it.key, it.off, it.size, it.lateness)
	}
	m.undo(batchRings[:n], 1)
	ev, ring := batch[0], batchRings[0]
	return deliveryOf(ev, ring, ev.Time(), m.latestOff(ring), uint64(20+ev.Len()+7)&^7, 0)
}
