package perfbuf

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
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
	poll  *fakePoller
	clock atomic.Uint64
	freed atomic.Int32
}

// newFake makes a Reader of n empty rings. Its clock stands still at a time far above those of the tests.
func newFake(t testing.TB, n int, opts Options) *fake {
	return newFakeAt(t, n, 0, opts)
}

// newFakeAt is newFake with counters that start at start.
func newFakeAt(t testing.TB, n int, start uint64, opts Options) *fake {
	k := &fake{t: t, poll: newFakePoller()}
	k.clock.Store(1 << 40)
	layout := raw.LayoutRawTime
	if opts.NoTime {
		layout = raw.LayoutRaw
	}
	var rings []*Ring
	for i := range n {
		w := ringtest.New(fakeRingSize, layout, start)
		k.w = append(k.w, w)
		rings = append(rings, newRing(firstCPU+i, w.Raw()))
	}
	opts.RingBytes = fakeRingSize
	k.Reader = newReader(rings, k.poll, k.clock.Load, opts, func() { k.freed.Add(1) })
	k.poll.ready = k.ready
	t.Cleanup(func() { k.Close() })
	return k
}

// output writes samples with these times, which are their payloads' ids too.
func (k *fake) output(ring int, times ...uint64) {
	k.t.Helper()
	for _, time := range times {
		require.NoError(k.t, k.w[ring].Output(time, ringtest.Payload(time, 12)))
	}
}

// fill writes samples of times from on until the ring is full, and returns how many fitted.
func (k *fake) fill(ring int, from uint64) (n int) {
	for ; k.w[ring].Output(from, ringtest.Payload(from, 12)) == nil; n++ {
		from++
	}
	return n
}

// stream is an Ordered stream in which everything is due.
func (k *fake) stream() *Ordered {
	k.t.Helper()
	s, err := k.Ordered(OrderOptions{Mode: Slack(0)})
	require.NoError(k.t, err)
	return s
}

// kinds of source, each over the whole fake.
var sourceKinds = map[string]func(k *fake) Source{
	"ring":    func(k *fake) Source { return k.rings[0] },
	"reader":  func(k *fake) Source { return k.Reader },
	"ordered": func(k *fake) Source { return k.stream() },
}

// id verifies the payload of a sample and returns its id; for what is no sample, it returns the complement of its time.
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
func ids(t testing.TB, src Source) (got []uint64) {
	t.Helper()
	require.NoError(t, forEach(src, func(ev Event) error {
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

// fakePoller keeps the contract of poller without a kernel.
type fakePoller struct {
	ready             func(woken bool) bool
	wakes, interrupts chan struct{}
	closed            chan struct{}
	waits             atomic.Int32
}

func newFakePoller() *fakePoller {
	return &fakePoller{wakes: make(chan struct{}, 1), interrupts: make(chan struct{}, 1), closed: make(chan struct{})}
}

// wake is the kernel's wake-up. Like perf's readiness, it is remembered once.
func (p *fakePoller) wake() {
	select {
	case p.wakes <- struct{}{}:
	default:
	}
}

func (p *fakePoller) wait(deadline time.Time) error {
	p.waits.Add(1)
	for _, forget := range []chan struct{}{p.wakes, p.interrupts} { // an interrupt is a deadline, which this one replaces
		select {
		case <-forget:
		default:
		}
	}
	select {
	case <-p.closed:
		return os.ErrClosed
	default:
	}
	if p.ready(false) {
		return nil
	}
	var late <-chan time.Time // never, if there is no deadline: not even in a bubble whose time runs fast
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-p.wakes:
			if p.ready(true) {
				return nil
			}
		case <-late:
			return os.ErrDeadlineExceeded
		case <-p.interrupts:
			return os.ErrDeadlineExceeded
		case <-p.closed:
			return os.ErrClosed
		}
	}
}

func (p *fakePoller) interrupt() {
	select {
	case p.interrupts <- struct{}{}:
	default:
	}
}

func (p *fakePoller) close() { close(p.closed) }

var errTest = errors.New("of the test")
