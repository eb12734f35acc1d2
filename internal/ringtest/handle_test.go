package ringtest_test

import (
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// begin begins an output and reserves its record.
func begin(t *testing.T, r *ringtest.Ring, time uint64, n int) *ringtest.Handle {
	t.Helper()
	h := r.Prepare(time, ringtest.Payload(time, n))
	h.Look()
	_, err := h.Take()
	require.NoError(t, err)
	h.Report(time)
	return &h
}

// records returns the published records that are not read.
func records(r *ringtest.Ring) (recs []raw.Record) {
	ring := r.Raw()
	for off, head := ring.Tail(), ring.Head(); off != head; {
		rec := ringtest.Parse(ring, off, head)
		recs = append(recs, rec)
		off += rec.Size
	}
	return recs
}

func times(r *ringtest.Ring) (times []uint64) {
	for _, rec := range records(r) {
		times = append(times, rec.Time)
	}
	return times
}

func TestOnlyTheOutermostWriterPublishes(t *testing.T) {
	r := ringtest.New(4096, raw.LayoutRawTime, 0)
	outer := begin(t, r, 1, 12)
	require.NoError(t, r.Output(2, ringtest.Payload(2, 12)))
	inner := begin(t, r, 3, 12)
	require.NoError(t, r.Output(4, ringtest.Payload(4, 12)))
	inner.Copy()
	inner.Publish()
	require.Empty(t, records(r), "the first record is not written yet")
	outer.Copy()
	require.Empty(t, records(r))
	outer.Publish()
	require.Equal(t, []uint64{1, 2, 3, 4}, times(r))
	require.NoError(t, r.Output(5, ringtest.Payload(5, 12)))
	require.Equal(t, []uint64{1, 2, 3, 4, 5}, times(r))
}

// A failed output nests like any other: it publishes the outputs within it.
func TestAnOutputThatFailsPublishes(t *testing.T) {
	r := ringtest.New(128, raw.LayoutRawTime, 0)
	outer := r.Prepare(1, make([]byte, 108))
	outer.Look()
	require.NoError(t, r.Output(2, ringtest.Payload(2, 12)))
	require.Empty(t, records(r))
	wake, err := outer.Take()
	require.Equal(t, syscall.ENOSPC, err)
	require.True(t, wake)
	require.Equal(t, []uint64{2}, times(r))
}

// The time is taken before the room: an interrupt between the two comes first in the ring.
func TestInterruptsMakeInversions(t *testing.T) {
	r := ringtest.New(4096, raw.LayoutRawTime, 0)
	h := r.Prepare(1, ringtest.Payload(1, 12))
	require.NoError(t, r.Output(2, ringtest.Payload(2, 12)))
	h.Look()
	_, err := h.Take()
	require.NoError(t, err)
	h.Copy()
	h.Publish()
	require.Equal(t, []uint64{2, 1}, times(r))
}

// An interrupt may report the losses that an output was about to report, which then reports 0.
func TestLossReportedByAnInterrupt(t *testing.T) {
	for name, c := range map[string]struct {
		layout  raw.Layout
		payload int // of two records that leave 64 bytes free in 128, of which one stays free
	}{"time": {raw.LayoutRawTime, 12}, "no time": {raw.LayoutRaw, 20}} {
		t.Run(name, func(t *testing.T) {
			r := ringtest.New(256, c.layout, 0)
			require.Equal(t, syscall.ENOSPC, r.Output(1, make([]byte, 300)))
			require.Equal(t, syscall.ENOSPC, r.Output(1, make([]byte, 300)))
			h := r.Prepare(2, ringtest.Payload(2, c.payload))
			h.Look()
			require.NoError(t, r.Output(3, ringtest.Payload(3, c.payload)))
			_, err := h.Take()
			require.NoError(t, err)
			require.NoError(t, r.Output(4, ringtest.Payload(4, c.payload)))
			h.Report(5)
			h.Copy()
			h.Publish()

			recs := records(r)
			require.Len(t, recs, 5)
			var kinds []raw.Kind
			for _, rec := range recs {
				kinds = append(kinds, rec.Kind)
			}
			require.Equal(t, []raw.Kind{raw.Lost, raw.Sample, raw.Lost, raw.Sample, raw.Sample}, kinds)
			require.Equal(t, []uint64{2, 0}, []uint64{recs[0].Lost, recs[2].Lost})
			if c.layout == raw.LayoutRawTime {
				require.Equal(t, []uint64{3, 3, 5, 5, 4}, times(r), "the time is taken anew for a report")
			}
			require.EqualValues(t, 2, r.Lost())
			require.Zero(t, r.Pending())
		})
	}
}

func TestLostCountsAll(t *testing.T) {
	r := ringtest.New(64, raw.LayoutRawTime, 0)
	for range 5 {
		require.Error(t, r.Output(1, make([]byte, 64)))
	}
	require.NoError(t, r.Output(1, nil)) // reports 5
	require.Error(t, r.Output(1, make([]byte, 64)))
	require.EqualValues(t, 6, r.Lost())
	require.EqualValues(t, 1, r.Pending())
}

// The head moves by the header's 16-bit size, but all bytes are copied, around the ring repeatedly.
func TestOversize(t *testing.T) {
	for _, c := range []struct {
		layout  raw.Layout
		payload int
		moved   uint64
		kind    raw.Kind
	}{
		{raw.LayoutRaw, 65516, 65528, raw.Sample}, // the largest that fits
		{raw.LayoutRaw, 65517, 0, 0},
		{raw.LayoutRawTime, 65508, 65528, raw.Sample},
		{raw.LayoutRawTime, 65509, 0, 0},
		{raw.LayoutRawTime, 70000, 4488, raw.Corrupt},
	} {
		for _, size := range []int{8 << 10, 256 << 10} {
			r := ringtest.New(size, c.layout, 0)
			payload := make([]byte, c.payload)
			for i := range payload {
				payload[i] = byte(i / 251)
			}
			err := r.Output(1, payload)
			if c.moved >= uint64(size) {
				require.Equal(t, syscall.ENOSPC, err)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, c.moved, r.Head())
			last := uint64(c.payload-1) + 12
			if c.layout == raw.LayoutRawTime {
				last += 8
			}
			require.Equal(t, payload[c.payload-1], r.Data()[last%uint64(size)])
			if c.moved > 0 {
				require.Equal(t, c.kind, records(r)[0].Kind)
			}
		}
	}
}

func TestPaddingIsOldMemory(t *testing.T) {
	r := ringtest.New(64, raw.LayoutRawTime, 0)
	for range 2 {
		require.NoError(t, r.Output(1, []byte("0123456789ab")))
		r.SetTail(r.Head())
	}
	require.NoError(t, r.Output(1, []byte("new")))
	require.Equal(t, "new3", string(r.Data()[20:24]))
}

// woken returns which of n outputs of 12 bytes wake readers. It reads each at once.
func woken(r *ringtest.Ring, n int) (woken []int) {
	for i := range n {
		h := r.Prepare(1, make([]byte, 12))
		h.Look()
		h.Take()
		h.Copy()
		if h.Publish() {
			woken = append(woken, i+1)
		}
		r.SetTail(r.Head())
	}
	return woken
}

func TestWakeup(t *testing.T) {
	for _, start := range []uint64{0, 1<<32 - 512} {
		fresh := func(events, bytes int) *ringtest.Ring {
			r := ringtest.New(4096, raw.LayoutRawTime, start)
			r.SetWakeup(events, bytes)
			return r
		}
		require.Len(t, woken(ringtest.New(4096, raw.LayoutRawTime, start), 200), 200, "each event")
		require.Equal(t, []int{3, 6, 9}, woken(fresh(3, 0), 10), "each third event")
		require.Equal(t, []int{4, 7, 10}, woken(fresh(0, 100), 10), "when 100 bytes are passed, counted on from there")
		require.Equal(t, []int{65, 129, 193}, woken(fresh(1000, 0), 200), "half the ring, at the latest")
		require.Equal(t, []int{129}, woken(fresh(0, 5000), 200), "no more than the ring")
	}
}

// The outermost output makes up for a wakeup that was due while an interrupt's output was
// invisible.
func TestWakeupOfTheOutermost(t *testing.T) {
	r := ringtest.New(4096, raw.LayoutRawTime, 0)
	r.SetWakeup(2, 0)
	outer := begin(t, r, 1, 12)
	inner := begin(t, r, 2, 12)
	inner.Copy()
	require.False(t, inner.Publish())
	outer.Copy() // the second event
	require.True(t, outer.Publish())
}

func TestPoison(t *testing.T) {
	r := ringtest.New(64, raw.LayoutRawTime, 1<<20-32)
	require.NoError(t, r.Output(1, []byte("0123456789ab")))
	before := string(r.Data())
	r.Poison()
	require.Equal(t, before, string(r.Data()), "nothing is read")
	r.SetTail(r.Head() - 16)
	r.Poison()
	for i, b := range r.Data() {
		require.Equal(t, i >= 32 && i < 48, b == 0xDD, i)
	}
	r.SetTail(r.Head())
	require.NoError(t, r.Output(1, []byte("0123456789ab")))
	require.NoError(t, r.Output(2, nil)) // 24 bytes, over those that were read
	before = string(r.Data())
	r.Poison()
	require.Equal(t, before[:56], string(r.Data()[:56]), "what is written anew is not poisoned")
	require.Equal(t, "\xDD\xDD\xDD\xDD\xDD\xDD\xDD\xDD", string(r.Data()[56:]))
}
