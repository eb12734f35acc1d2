package perfbuf

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { leak.Main(m) }

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

	mu      sync.Mutex
	streams map[int]*Stream // of rings; -1: of all
}

// newFake makes a Reader of n empty rings. Its clock stands still at a time far above those of the
// tests.
func newFake(t testing.TB, n int, opts Options) *fake {
	return newFakeAt(t, n, 0, opts)
}

// newFakeAt is newFake with counters that start at start.
func newFakeAt(t testing.TB, n int, start uint64, opts Options) *fake {
	k := &fake{t: t, poll: newFakePoller(), streams: map[int]*Stream{}}
	k.clock.Store(1 << 40)
	opts.Name, opts.RingBytes = cmp.Or(opts.Name, "fake"), cmp.Or(opts.RingBytes, fakeRingSize)
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
	k.Reader = newReader(h, opts)
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

// stream opens a Stream in which everything is due.
func (k *fake) stream() *Stream {
	k.t.Helper()
	return k.open(StreamOptions{Order: Slack(0), Spill: Spill{Bytes: -1}})
}

// open opens a Stream of all rings.
func (k *fake) open(o StreamOptions) *Stream {
	k.t.Helper()
	s, err := k.Stream(o)
	require.NoError(k.t, err)
	return s
}

// eachSource runs f with a stream of each kind, of a new Reader of n rings.
func eachSource(t *testing.T, n int, f func(t *testing.T, k *fake, src *Stream)) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, n, Options{})
			f(t, k, source(k))
		})
	}
}

// runInBubble is t.Run in a bubble of its own, where time is the test's.
func runInBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// unordered is an unordered Stream of all rings. It is opened at the first call, and at the first
// after it was closed.
func (k *fake) unordered() *Stream {
	k.t.Helper()
	return k.once(-1, func() (*Stream, error) { return unordered(k.Reader) })
}

// ring is the Stream of a ring, opened as unordered is.
func (k *fake) ring(i int) *Stream {
	k.t.Helper()
	return k.once(i, k.all()[i].Stream)
}

func (k *fake) once(of int, open func() (*Stream, error)) *Stream {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.streams[of]
	if s == nil || errors.Is(s.Add(k.Reader), os.ErrClosed) && !k.in.Gate.Closed().Load() {
		var err error
		s, err = open()
		require.NoError(k.t, err)
		k.streams[of] = s
	}
	return s
}

// release closes the streams that unordered and ring have opened.
func (k *fake) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.streams {
		s.Close()
	}
	clear(k.streams)
}

func unordered(r *Reader) (*Stream, error) { return r.Stream(StreamOptions{Order: Unordered()}) }

// requireHeld requires that another stream holds a Reader's rings, or a Ring.
func requireHeld(t testing.TB, of interface{ errBusy() error }) {
	t.Helper()
	require.ErrorIs(t, of.errBusy(), ErrBusy)
}

func (r *Reader) errBusy() error { _, err := unordered(r); return err }
func (r *Ring) errBusy() error   { _, err := r.Stream(); return err }

// requireFree requires that no stream holds a Reader's rings, and that they are empty.
func requireFree(t testing.TB, r *Reader) {
	t.Helper()
	s, err := unordered(r)
	require.NoError(t, err)
	require.NoError(t, s.ForEach(never))
	require.NoError(t, s.Close())
}

// kinds of stream, each over the whole fake.
var sourceKinds = map[string]func(k *fake) *Stream{
	"ring":      func(k *fake) *Stream { return k.ring(0) },
	"unordered": (*fake).unordered,
	"ordered":   (*fake).stream,
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

// fakeKernel is a kernel.Kernel made of functions, which a test replaces. Those that are nil do
// nothing.
type fakeKernel struct {
	kernel.Hotplug // nil: only CPUs may be called
	poll           fakePolling
	memory         []*raw.Ring
	cpus           []int // that may have rings some day
	bells          error

	clock   func() uint64
	lost    func(ring int) (uint64, bool)
	set     func(ring int, to kernel.Entry) error
	grace   func(grace.Options) (grace.Provider, error)
	group   func() (kernel.Group, error)
	outputs func() kernel.Outputs
	unhook  func() error
	free    func()
	yield   func()
	drive   func(*grace.Barrier)
}

func (k *fakeKernel) Group() (kernel.Group, error) {
	if k.group != nil {
		return k.group()
	}
	return k.poll.Group()
}

func (k *fakeKernel) Polled() *ringtest.Poll { return k.poll.Polled() }

// fakePolling is the poller of a fake.
type fakePolling interface {
	Wait(until time.Time, ready func(woken bool) bool) error
	Interrupt()
	Group() (kernel.Group, error)
	Polled() *ringtest.Poll
}

func (k *fakeKernel) Wait(until time.Time, ready func(woken bool) bool) error {
	return k.poll.Wait(until, ready)
}

func (k *fakeKernel) Interrupt() {
	if k.poll != nil {
		k.poll.Interrupt()
	}
}

func (k *fakeKernel) Rings() []*raw.Ring { return k.memory }
func (k *fakeKernel) CPUs() []int        { return k.cpus }
func (k *fakeKernel) Bells() error       { return k.bells }
func (k *fakeKernel) Replaced() int      { return 0 }
func (k *fakeKernel) Now() uint64        { return k.clock() }

func (k *fakeKernel) Set(ring int, to kernel.Entry) error {
	if k.set == nil {
		return nil
	}
	return k.set(ring, to)
}

func (k *fakeKernel) Lost(ring int) (uint64, bool) {
	if k.lost == nil {
		return 0, false
	}
	return k.lost(ring)
}

func (k *fakeKernel) Grace(o grace.Options) (grace.Provider, error) {
	if k.grace == nil {
		return nil, os.ErrInvalid
	}
	return k.grace(o)
}

func (k *fakeKernel) Outputs() kernel.Outputs {
	if k.outputs == nil {
		return kernel.Outputs{}
	}
	return k.outputs()
}

func (k *fakeKernel) Unhook() error {
	if k.unhook == nil {
		return nil
	}
	return k.unhook()
}

func (k *fakeKernel) Free() {
	if k.free != nil {
		k.free()
	}
}

func (k *fakeKernel) Yield() bool {
	if k.yield != nil {
		k.yield()
	}
	return false
}

func (k *fakeKernel) Drive(b *grace.Barrier) {
	if k.drive == nil {
		b.Start()
		return
	}
	k.drive(b)
}

// fakePrograms is what runs on the CPUs of a fake, to be waited for. It is all providers in one.
type fakePrograms struct {
	opened  func() error // while a provider is opened, which waits once; nil: none run
	wait    func() error // a barrier's wait; nil: none run
	options grace.Options

	opens, closes, waits atomic.Int32
}

// open stands for grace.Open.
func (p *fakePrograms) open(o grace.Options) (grace.Provider, error) {
	if p == nil {
		return nil, os.ErrInvalid
	}
	p.options = o
	if p.opened != nil {
		if err := p.opened(); err != nil {
			return nil, err
		}
	}
	p.opens.Add(1)
	return p, nil
}

func (*fakePrograms) Name() string { return "fake" }

func (p *fakePrograms) Wait() error {
	p.waits.Add(1)
	if p.wait == nil {
		return nil
	}
	return p.wait()
}

func (p *fakePrograms) Close() error { p.closes.Add(1); return nil }

func (k *fake) kernelLost(ring int) (uint64, bool) {
	k.asked.Add(1)
	return k.w[ring].Lost(), k.counts
}

// stepped is an exact stream whose barriers the test makes itself, by calling Round.
func (k *fake) stepped(now uint64, o StreamOptions) (*Stream, *grace.Barrier) {
	k.t.Helper()
	k.clock.Store(now)
	if k.programs == nil {
		k.programs = &fakePrograms{}
	}
	var barrier *grace.Barrier
	k.hooks.drive = func(b *grace.Barrier) { barrier = b }
	s, err := k.Stream(o)
	require.NoError(k.t, err)
	return s, barrier
}

// account requires that all outputs of a ring that it took, or was too full for, are accounted for.
func (k *fake) account(t testing.TB, ring int, attempted uint64) {
	t.Helper()
	s := k.Stats().Rings[ring]
	require.Equal(t, attempted, s.Samples+s.Dropped+s.Lost,
		"%d delivered, %d dropped, %d lost", s.Samples, s.Dropped, s.Lost)
}
