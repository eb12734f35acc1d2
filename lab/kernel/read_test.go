//go:build linux && cgo

package kernel_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// sizes of payloads, small and large, odd and even, that fit into a ring of one page.
var sizes = []int{24, 25, 26, 27, 28, 29, 31, 33, 40, 44, 47, 56, 61, 100, 255, 256, 257, 511, 777, 1000, 1023, 1499, 2000, 2501, 2999, 3000}

// Every byte of every payload arrives, from the right CPU, over many laps of small rings, whichever
// way they are read.
func TestKernelPayloads(t *testing.T) {
	forEach := func(t *testing.T, s *perfbuf.Stream, l *ledger) { require.NoError(t, s.ForEach(l.add)) }
	for name, c := range map[string]struct {
		rings bool // a stream for each
		open  func(testing.TB, *perfbuf.Reader) *perfbuf.Stream
		read  func(t *testing.T, s *perfbuf.Stream, l *ledger)
	}{
		"unordered": {open: unordered, read: forEach},
		"ordered":   {open: ordered, read: forEach},
		"rings":     {rings: true, read: forEach},
		"fold": {open: unordered, read: func(t *testing.T, s *perfbuf.Stream, l *ledger) {
			n, err := perfbuf.Fold(s, 0, func(n int, ev perfbuf.Event) (int, error) { l.add(ev); return n + 1, nil })
			require.NoError(t, err)
			require.Equal(t, len(kerneltest.OnlineCPUs(t)), n)
		}},
		"one by one": {open: unordered, read: func(t *testing.T, s *perfbuf.Stream, l *ledger) {
			for range kerneltest.OnlineCPUs(t) {
				require.NoError(t, s.ForEach(func(ev perfbuf.Event) error { l.add(ev); return perfbuf.ErrStop }))
			}
		}},
		"ring events": {rings: true, read: func(t *testing.T, s *perfbuf.Stream, l *ledger) {
			for ev, err := range s.Events(t.Context()) {
				require.NoError(t, err)
				l.add(ev)
				break // the next would be waited for
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 4096})
			var streams []*perfbuf.Stream
			if c.rings {
				streams = ofRings(t, r)
			} else {
				streams = append(streams, c.open(t, r))
			}
			l := newLedger(t)
			before := perfbuf.Now()
			for range 8 {
				for _, size := range sizes {
					emitOnAll(e, r, 1, size)
					for _, s := range streams {
						c.read(t, s, l)
					}
				}
			}
			l.balance(e, r)
			require.Zero(t, l.lost())
			for _, a := range l.cpus {
				require.Greater(t, a.time, before)
				require.Less(t, a.time, perfbuf.Now())
			}
			for _, rs := range r.Stats().Rings {
				require.Greater(t, rs.Bytes, uint64(30*rs.Size), "laps")
				require.Zero(t, rs.Used)
			}
		})
	}
}

// Full batches, so that records wrap around the ring's edge at every possible place.
func TestKernelWraps(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 4096})
	l := newLedger(t)
	s := unordered(t, r)
	var copied wrapped
	wraps, sizesThatDid := 0, map[int]bool{}
	for _, size := range slices.Repeat(sizes, 4) {
		emitOnAll(e, r, (r.Rings()[0].Size()-1)/recordSize(size), size)
		require.NoError(t, s.ForEach(func(ev perfbuf.Event) error {
			if copied.by(ev, 4096) {
				wraps++
				sizesThatDid[len(ev.Bytes())] = true
			}
			return l.add(ev)
		}))
	}
	l.balance(e, r)
	require.Zero(t, l.lost())
	require.Greater(t, wraps, 50)
	require.Greater(t, len(sizesThatDid), 10)
}

// Events that a fold does not come to are there for the next one.
func TestKernelStopEarly(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{})
	emitOnAll(e, r, 100, 56)
	s, l := unordered(t, r), newLedger(t)
	for total := uint64(0); total < uint64(100*len(r.Rings())); {
		n, err := perfbuf.Fold(s, 0, func(n int, ev perfbuf.Event) (int, error) {
			l.add(ev)
			if n == 6 {
				return 7, perfbuf.ErrStop
			}
			return n + 1, nil
		})
		require.NoError(t, err)
		require.NotZero(t, n)
		total += uint64(n)
		require.Equal(t, total, l.delivered())
	}
	require.Empty(t, collect(t, s))
	l.balance(e, r)
}

func TestKernelNoTime(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{NoTime: true, RingBytes: 4096})
	require.True(t, r.Options().NoTime)
	_, err := r.Stream(perfbuf.StreamOptions{})
	require.ErrorContains(t, err, "NoTime")
	l := newLedger(t) // also sees to it that Time does not decrease: it is 0
	streams := ofRings(t, r)
	for _, size := range sizes {
		for i, ring := range r.Rings() {
			s := streams[i]
			e.Emit(ring.CPU(), 4096/size+2, size) // the last are lost
			require.NoError(t, s.ForEach(l.add))
			e.Emit(ring.CPU(), 1, size)
			require.NoError(t, s.ForEach(l.add))
		}
	}
	l.balance(e, r)
	require.NotZero(t, l.lost())
	for _, a := range l.cpus {
		require.Zero(t, a.time)
	}
}

// Only the CPUs asked for have rings, sorted.
func TestKernelExplicitCPUs(t *testing.T) {
	e := kerneltest.Load(t)
	all := open(t, e, perfbuf.Options{RingBytes: 4096}).Options().CPUs
	require.True(t, slices.IsSorted(all))
	last := all[len(all)-1]

	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	asked := slices.Clone(backwards)
	r := open(t, e, perfbuf.Options{RingBytes: 4096, CPUs: asked})
	require.Equal(t, all, r.Options().CPUs)
	require.Equal(t, backwards, asked, "the caller's slice")
	for i, ring := range r.Rings() {
		require.Equal(t, all[i], ring.CPU())
		e.Emit(ring.CPU(), i+1, 24)
		require.Len(t, collect(t, ofRing(t, ring)), i+1)
	}
	require.NoError(t, r.Close())

	r = open(t, e, perfbuf.Options{RingBytes: 4096, CPUs: []int{last}})
	require.Len(t, r.Rings(), 1)
	for _, cpu := range all {
		e.Emit(cpu, 3, 24)
		require.Equal(t, cpu == last, e.LastError(cpu) == nil)
	}
	recs := collect(t, unordered(t, r))
	require.Len(t, recs, 3)
	for _, rec := range recs {
		require.Equal(t, last, rec.CPU)
	}
}

// One goroutine per ring reads while its CPU outputs.
func TestKernelRingPerGoroutine(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 16 << 10})
	var stopped atomic.Bool
	var wg sync.WaitGroup
	accounts := make([]account, len(r.Rings()))
	for i, ring := range r.Rings() {
		s := ofRing(t, ring)
		wg.Go(func() {
			defer s.Close()
			for last := false; !last; {
				last = stopped.Load()
				_, err := perfbuf.Fold(s, &accounts[i], func(a *account, ev perfbuf.Event) (*account, error) {
					a.add(t, ev)
					return a, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 30 {
		var emit sync.WaitGroup
		for _, ring := range r.Rings() {
			emit.Go(func() { e.Emit(ring.CPU(), 1000, 24+os.Getpid()%8) })
		}
		emit.Wait()
	}
	stopped.Store(true)
	wg.Wait()
	l := newLedger(t)
	for i, ring := range r.Rings() {
		l.cpus[ring.CPU()] = &accounts[i]
		e.Emit(ring.CPU(), 1, 24) // reports the losses
	}
	require.NoError(t, unordered(t, r).ForEach(l.add))
	l.balance(e, r)
}

// Reading allocates nothing: not per event, and most ways not per pass.
func TestKernelAllocations(t *testing.T) {
	const (
		size   = 56
		passes = 50
		batch  = 30 // events of a pass
	)
	type reader = func(s *perfbuf.Stream, f func(perfbuf.Event) error) error
	firstRing := func(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream { return ofRing(t, r.Rings()[0]) }
	waitForEach := func(s *perfbuf.Stream, f func(perfbuf.Event) error) error {
		if err := s.Wait(context.Background()); err != nil {
			return err
		}
		return s.ForEach(f)
	}
	run := func(s *perfbuf.Stream, f func(perfbuf.Event) error) error { return s.Run(context.Background(), f) }
	events := func(s *perfbuf.Stream, f func(perfbuf.Event) error) error {
		for ev, err := range s.Events(context.Background()) {
			if err != nil {
				return err
			}
			if f(ev) != nil {
				break
			}
		}
		return nil
	}
	for name, c := range map[string]struct {
		open    func(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream
		perPass float64
		read    reader
	}{
		"unordered Fold":    {open: unordered, read: forEach},
		"unordered ForEach": {open: unordered, read: (*perfbuf.Stream).ForEach},
		"unordered Wait":    {open: unordered, read: waitForEach},
		"unordered Run":     {open: unordered, perPass: 10, read: run},
		"unordered Events":  {open: unordered, perPass: 10, read: events},
		"ForEach of a ring": {open: firstRing, perPass: 1, read: (*perfbuf.Stream).ForEach},
		"Events of a ring":  {open: firstRing, perPass: 10, read: events},
		"Fold":              {open: ordered, read: forEach},
		"ForEach":           {open: ordered, read: (*perfbuf.Stream).ForEach},
		"ForEachPending":    {open: ordered, read: (*perfbuf.Stream).ForEachPending},
		"Wait":              {open: ordered, read: waitForEach},
		"Events":            {open: ordered, perPass: 10, read: events},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 256 << 10})
			s := c.open(t, r)
			// AllocsPerRun makes one call more, to warm up. All CPUs have enough for all calls, as
			// only one is read here and there.
			emitOnAll(e, r, (passes+1)*batch, size)
			n, sum := 0, uint64(0)
			one := func(ev perfbuf.Event) error {
				sum += ev.Time() + uint64(len(ev.Bytes())) + uint64(ev.CPU()) + ev.Lost()
				if n++; n%batch == 0 {
					return perfbuf.ErrStop
				}
				return nil
			}
			allocs := testing.AllocsPerRun(passes, func() {
				if err := c.read(s, one); err != nil {
					t.Fatal(err)
				}
			})
			require.Equal(t, (passes+1)*batch, n)
			require.NotZero(t, sum)
			if !checked {
				require.LessOrEqual(t, allocs, c.perPass, "per pass")
			}
		})
	}
}

// Nor do records that wrap around the ring's edge, once there has been one.
func TestKernelAllocationsOfWraps(t *testing.T) {
	eachSource(t, perfbuf.Options{RingBytes: 8 << 10}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		wraps, sum := 0, 0
		var copied wrapped
		read := func() {
			err := src.ForEach(func(ev perfbuf.Event) error {
				if copied.by(ev, 8<<10) {
					wraps++
				}
				sum += len(ev.Bytes())
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		allocs := uint64(0)
		for i := range 300 {
			emitOnAll(e, r, 2, 3000)
			runtime.ReadMemStats(&before)
			read()
			runtime.ReadMemStats(&after)
			if i == 20 { // everybody has grown what there is to grow
				allocs, wraps = 0, 0
			}
			allocs += after.Mallocs - before.Mallocs
		}
		require.Greater(t, wraps, 100)
		require.NotZero(t, sum)
		if !checked {
			// The runtime itself may have some
			require.Less(t, allocs, uint64(wraps/4), "of %d wraps", wraps)
		}
	})
}

// A Record is owned: it is intact after the ring has been written over many times.
func TestKernelRecords(t *testing.T) {
	// A record is freed when the next one is asked for: there must be room for two rounds.
	eachSource(t, perfbuf.Options{RingBytes: 8192}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		next, stop := iter.Pull2(src.Records(t.Context()))
		defer stop()
		var recs []perfbuf.Record
		for i := range 400 {
			emitOnAll(e, r, 1, sizes[i%len(sizes)])
			for range r.Rings() {
				rec, err, ok := next()
				require.True(t, ok)
				require.NoError(t, err)
				recs = append(recs, rec)
			}
		}
		require.Greater(t, r.Stats().Rings[0].Bytes, uint64(30*8192))
		seq := map[int]uint64{}
		for _, rec := range recs {
			p, err := kerneltest.Check(rec.Data)
			require.NoError(t, err)
			require.Equal(t, seq[rec.CPU], p.Seq)
			require.Equal(t, rec.CPU, p.CPU)
			require.NotZero(t, rec.Time)
			require.Equal(t, perfbuf.Record{Kind: perfbuf.KindSample, CPU: p.CPU, Source: "events", Time: rec.Time, Data: rec.Data}, rec)
			seq[rec.CPU]++
		}
	})
}

// Run, Events and Records each wait for events, and stop on request, without losing any.
func TestKernelStreams(t *testing.T) {
	const n = 500
	cause := errors.New("cause")
	own := errors.New("the function's own")
	eachSource(t, perfbuf.Options{RingBytes: 64 << 10}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		emit := func() {
			background(t, func() {
				for range n {
					emitOnAll(e, r, 1, 56)
				}
			})
		}
		total := n * len(r.Rings())
		l := newLedger(t)

		emit()
		got := 0
		require.NoError(t, src.Run(t.Context(), func(ev perfbuf.Event) error {
			l.add(ev)
			if got++; got == total {
				return perfbuf.ErrStop
			}
			return nil
		}))

		emit()
		for ev, err := range src.Events(t.Context()) {
			require.NoError(t, err)
			l.add(ev)
			if got++; got == 2*total {
				break
			}
		}

		emit()
		for rec, err := range src.Records(t.Context()) {
			require.NoError(t, err)
			p, err := kerneltest.Check(rec.Data)
			require.NoError(t, err)
			a := l.cpus[rec.CPU]
			require.Equal(t, a.next, p.Seq)
			a.next, a.time = p.Seq+1, rec.Time
			a.delivered++
			if got++; got == 3*total {
				break
			}
		}

		emit()
		require.Equal(t, own, src.Run(t.Context(), func(ev perfbuf.Event) error {
			l.add(ev)
			if got++; got == 4*total {
				return own
			}
			return nil
		}))
		l.balance(e, r)
		require.Zero(t, l.lost())

		// Cancelled from inside, they end after that event, with the cause.
		emitOnAll(e, r, 10, 56)
		ctx, cancel := context.WithCancelCause(t.Context())
		events := 0
		require.Equal(t, cause, src.Run(ctx, func(perfbuf.Event) error { events++; cancel(cause); return nil }))
		for _, err := range src.Events(ctx) {
			require.Equal(t, cause, err)
		}
		for rec, err := range src.Records(ctx) {
			require.Equal(t, cause, err)
			require.Equal(t, perfbuf.Record{}, rec)
		}
		require.Equal(t, 1, events)
		require.Len(t, collect(t, src), 10*len(r.Rings())-1)
	})
}
