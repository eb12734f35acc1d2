package perfbuf

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Wakeup policies of a FuzzReader.
func fuzzWakeup(options byte) Wakeup {
	switch options >> 5 & 3 {
	case 1:
		return Wakeup{Bytes: 8 * recordSize, PollInterval: 5 * time.Millisecond}
	case 2:
		return Wakeup{Events: 3, PollInterval: 5 * time.Millisecond}
	case 3:
		return Wakeup{PollInterval: bellPollInterval}
	default:
		return Wakeup{Events: 1}
	}
}

// fuzzFake is a fake whose clock goes on with the bubble's.
func fuzzFake(t *testing.T, start uint64, opts Options) *fake {
	k := newFakeAt(t, 2, start, opts)
	if opts.Wakeup.doorbell() {
		k = withDoorbell(k).fake
	}
	began := time.Now()
	k.hooks.clock = func() uint64 { return k.clock.Load() + uint64(time.Since(began)) }
	return k
}

// wait waits by the bubble's clock, in which no Wait can spin: see fakePoller. If it ends, a pass
// makes progress. If it does not, there is nothing that a pass would read.
func (z *readerFuzz) wait(v byte) {
	src := z.stream
	switch {
	case src != nil:
	case v&2 != 0:
		src = z.ring(int(v & 1))
	default:
		src = z.all()
	}
	ctx, cancel := context.WithTimeout(z.t.Context(), 100*time.Millisecond)
	defer cancel()
	scanned := func() {}
	if z.stream != nil {
		scanned = z.scanning()
	}
	err := src.Wait(ctx)
	scanned()
	synctest.Wait() // until nobody waits for the ring's sake
	switch err {
	case nil:
		before := z.progress()
		if z.stream != nil {
			z.streamPass(255, v&4 != 0, false)
		} else {
			z.pass(src, 255, v&4 != 0)
		}
		if z.progress() == before {
			z.t.Fatalf("%v: Wait ended, and there is nothing", src.Options().Order)
		}
	case context.DeadlineExceeded:
		z.quiet(src)
	default:
		z.t.Fatal(err)
	}
}

// progress grows with each effect of a pass.
func (z *readerFuzz) progress() uint64 {
	c := z.k.Stats().Total()
	return c.Samples + c.Lost + c.Corrupt + c.Dropped + c.Bytes + uint64(z.flushed)
}

// quiet checks that no waiter has missed an event for longer than the poll interval.
func (z *readerFuzz) quiet(src *Stream) {
	for i, ring := range z.k.all() {
		switch from, head := ring.in().Raw.Tail(), ring.in().Raw.Head(); {
		case z.stream != nil:
			from = z.stream.in.Order.Scanned(i)
			if int64(head-from) > 0 && head-ring.in().Raw.Tail() < 1<<61 && z.k.Stats().SpillUsed == 0 {
				z.t.Fatalf("ring %d: %d bytes are not seen", i, head-from)
			}
		case (src == z.others[2] || src == z.others[i]) && int64(head-from) > 0:
			z.t.Fatalf("%v: ring %d: %d bytes are not read", src.Options().Order, i, head-from)
		}
	}
	if s := z.stream; s != nil {
		first := min(s.in.Order.Earliest(), z.flushTime())
		if due := first + uint64(s.opts.Order.slack+10*time.Millisecond); first != math.MaxUint64 && due < z.k.hooks.clock() {
			z.t.Fatalf("an event of %d is due at %d, and it is %d", first, due, z.k.hooks.clock())
		}
	} else if src.in.Flushing() {
		z.t.Fatal("a Flush has ended no Wait")
	}
}

// flushTime is the time of a Flush whose marker has not been delivered.
func (z *readerFuzz) flushTime() uint64 {
	if f := z.stream.in.Order.Flushes.Load(); f != nil {
		return f.Time
	}
	return math.MaxUint64
}

// finish reads all that is left. Nothing is unaccounted for then.
func (z *readerFuzz) finish() {
	t := z.t
	z.close(false)
	z.pass(z.all(), 255, false)
	s := z.k.Stats()
	dropped := uint64(0)
	for i, ring := range z.k.all() {
		c := s.Rings[i]
		if int64(ring.in().Raw.Head()-ring.in().Raw.Tail()) > 0 {
			t.Fatalf("ring %d: %d bytes are left", i, ring.in().Raw.Head()-ring.in().Raw.Tail())
		}
		if c.Bytes != ring.in().Raw.Tail()-z.start {
			t.Fatalf("ring %d: %d bytes given back, %d counted", i, ring.in().Raw.Tail()-z.start, c.Bytes)
		}
		if c.Samples != z.samples[i] || c.Corrupt != z.corrupt[i] || !z.given && c.Lost != z.lost[i] {
			t.Fatalf("ring %d: %+v; delivered were %d samples, %d lost, %d corrupt", i, c, z.samples[i], z.lost[i], z.corrupt[i])
		}
		dropped += c.Dropped
	}
	if !z.given && z.found != z.came+dropped {
		t.Fatalf("%d in streams: %d delivered, %d dropped", z.found, z.came, dropped)
	}
	if err := z.k.Close(); err != nil {
		t.Fatal(err)
	}
}
