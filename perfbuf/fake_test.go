package perfbuf

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	fakeRingSize = 4096
	recordSize   = 32 // of a sample of 12 bytes
	firstCPU     = 10 // the CPU of ring 0
)

// fake is a Reader of rings on Go memory, and the kernel behind it.
type fake struct {
	*Reader
	t     testing.TB
	w     []*ringtest.Ring
	hooks *fakeKernel
	poll  *fakePoller
	clock atomic.Uint64
	freed atomic.Int32

	programs *fakePrograms // nil: no way to wait for them
	counts   bool          // the kernel reports how many outputs were lost
	asked    atomic.Int32  // how often it was asked
	unhooked atomic.Int32
}

// newFake makes a Reader of n empty rings. Its clock stands still at a time far above those of the
// tests.
func newFake(t testing.TB, n int, opts Options) *fake {
	return newFakeAt(t, n, 0, opts)
}

// newFakeAt is newFake with counters that start at start.
func newFakeAt(t testing.TB, n int, start uint64, opts Options) *fake {
	k := &fake{t: t, poll: newFakePoller()}
	k.clock.Store(1 << 40)
	if opts.RingBytes == 0 {
		opts.RingBytes = fakeRingSize
	}
	layout := raw.LayoutRawTime
	if opts.NoTime {
		layout = raw.LayoutRaw
	}
	k.hooks = &fakeKernel{poll: k.poll}
	cpus := []int{firstCPU - 1} // may come later, as that behind the others
	for i := range n {
		cpus = append(cpus, firstCPU+i)
		w := ringtest.New(opts.RingBytes, layout, start)
		k.w = append(k.w, w)
		k.hooks.memory = append(k.hooks.memory, ofCPU(firstCPU+i, w))
	}
	cpus = append(cpus, firstCPU+n)
	if opts.Wakeup.doorbell() {
		opts.Wakeup = Wakeup{Events: 1}
	}
	h := k.hooks
	h.clock, h.lost, h.cpus = k.clock.Load, k.kernelLost, cpus
	h.grace = func(o grace.Options) (grace.Provider, error) { return k.programs.open(o) }
	h.unhook = func() error { k.unhooked.Add(1); return nil }
	h.free = func() { k.freed.Add(1) }
	k.Reader = newReader(h, opts, false)
	// The first event disarms its ring; tests of the budget for wakeups set another one
	k.in.Entries.Burst = 0
	t.Cleanup(func() { k.Close() })
	return k
}

// ofCPU is the reading side of a CPU's ring.
func ofCPU(cpu int, w *ringtest.Ring) *raw.Ring {
	r := w.Raw()
	r.SetCPU(cpu)
	return r
}

// output writes samples with these times, which are their payloads' ids too.
func (k *fake) output(ring int, times ...uint64) {
	k.t.Helper()
	for _, time := range times {
		assert.NoError(k.t, k.w[ring].Output(time, ringtest.Payload(time, 12))) // some call it in another goroutine than the test's
	}
}

// fill writes samples of times from on until the ring is full, and returns how many fitted.
func (k *fake) fill(ring int, from uint64) (n int) {
	for ; k.w[ring].Output(from, ringtest.Payload(from, 12)) == nil; n++ {
		from++
	}
	return n
}

// stream is a Stream in which everything is due.
func (k *fake) stream() *Stream {
	k.t.Helper()
	CloseStreamsOf(k.Reader, true)
	s, err := k.Stream(StreamOptions{Order: Slack(0), Spill: Spill{Bytes: -1}})
	require.NoError(k.t, err)
	return s
}

// unordered is the fake's unordered Stream: see StreamOf.
func (k *fake) unordered() *Stream {
	k.t.Helper()
	return StreamOf(k.t, k.Reader)
}

// requireHeld requires that another stream holds a Reader's rings, or a Ring.
func requireHeld(t testing.TB, of interface{ errBusy() error }) {
	t.Helper()
	require.ErrorIs(t, of.errBusy(), ErrBusy)
}

func (r *Reader) errBusy() error { _, err := r.Stream(StreamOptions{Order: Unordered()}); return err }
func (r *Ring) errBusy() error   { _, err := r.Stream(); return err }

// requireFree requires that no stream holds a Reader's rings, and that they are empty.
func requireFree(t testing.TB, r *Reader) {
	t.Helper()
	s, err := r.Stream(StreamOptions{Order: Unordered()})
	require.NoError(t, err)
	require.NoError(t, s.ForEach(never))
	require.NoError(t, s.Close())
}

// kinds of stream, each over the whole fake.
var sourceKinds = map[string]func(k *fake) *Stream{
	"ring":      func(k *fake) *Stream { return StreamOf(k.t, k.all()[0]) },
	"unordered": func(k *fake) *Stream { return k.unordered() },
	"ordered":   func(k *fake) *Stream { return k.stream() },
}

// id verifies the payload of a sample and returns its id; for other events, it returns the
// complement of the time.
func id(t testing.TB, ev Event) uint64 {
	if ev.Kind() != KindSample {
		return ^ev.Time()
	}
	id, err := ringtest.Check(ev.Bytes())
	if err != nil {
		t.Error(err)
	}
	return id
}

// ids reads what src holds, all of it.
func ids(t testing.TB, src *Stream) (got []uint64) {
	t.Helper()
	require.NoError(t, src.ForEach(func(ev Event) error {
		got = append(got, id(t, ev))
		return nil
	}))
	return got
}

func seq(from, to uint64) (s []uint64) {
	for ; from <= to; from++ {
		s = append(s, from)
	}
	return s
}

// fakePoller is a Poll that a test wakes. Waiting again and again while no time passes is spinning:
// the bubble's clock would never advance.
type fakePoller struct {
	*ringtest.Poll
	waits atomic.Int32
	since time.Time // the clock at the latest wait, and how many there have been at that time
	spun  int
}

func newFakePoller() *fakePoller { return &fakePoller{Poll: ringtest.NewPoll()} }

// wake is the kernel's wakeup. Like perf's readiness, it is remembered once.
func (p *fakePoller) wake() { p.Wake() }

func (p *fakePoller) Wait(until time.Time, ready func(woken bool) bool) error {
	p.waits.Add(1)
	if now := time.Now(); !now.Equal(p.since) {
		p.since, p.spun = now, 0
	}
	if p.spun++; p.spun == 10_000 {
		panic("a Wait spins")
	}
	return p.Poll.Wait(until, ready)
}

var errTest = errors.New("of the test")
