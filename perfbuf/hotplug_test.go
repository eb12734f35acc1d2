package perfbuf

import (
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// pluggable is a fake whose CPUs come and go.
type pluggable struct {
	*belled
	online   []int
	listing  error
	dead     map[int]bool // rings
	reopens  []int        // rings, in turn
	refusals []error      // results of the next calls of add and reopen
}

func newPluggable(t testing.TB, n int) *pluggable {
	k := &pluggable{belled: newBelled(t, n), dead: map[int]bool{}}
	for i := range n {
		k.online = append(k.online, firstCPU+i)
	}
	k.hooks.Hotplug = k
	k.in.Parts.Returning = k
	k.watch(k)
	return k
}

// watch makes the reader follow the CPUs that w announces.
func (k *pluggable) watch(w kernel.Watcher) {
	k.in.Parts.Watcher = w
	k.in.Follow()
}

func (k *pluggable) CPUs() []int            { return k.hooks.cpus }
func (k *pluggable) Online() ([]int, error) { return k.online, k.listing }
func (k *pluggable) Index(cpu int) int {
	return slices.IndexFunc(k.all(), func(r *Ring) bool { return r.CPU() == cpu })
}
func (k *pluggable) Alive(ring int) bool { return !k.dead[ring] }

func (*pluggable) Changed(time.Duration) bool { return false }
func (*pluggable) StopWatching()              {}
func (*pluggable) WatchErr() error            { return nil }

func (k *pluggable) refused() error {
	if len(k.refusals) == 0 {
		return nil
	}
	err := k.refusals[0]
	k.refusals = k.refusals[1:]
	return err
}

func (k *pluggable) Reopen(ring int) error {
	if err := k.refused(); err != nil {
		return err
	}
	k.reopens = append(k.reopens, ring)
	k.dead[ring] = false
	return nil
}

func (k *pluggable) Add(cpu int) (*raw.Ring, error) {
	if err := k.refused(); err != nil {
		return nil, err
	}
	w := ringtest.New(fakeRingSize, raw.LayoutRawTime, 0)
	k.w = append(k.w, w)
	k.inMap = append(k.inMap, noEntry)
	return ofCPU(cpu, w), nil
}

// comes makes a CPU come online, which gets a ring.
func (k *pluggable) comes(cpu int) {
	k.t.Helper()
	k.online = append(k.online, cpu)
	require.NoError(k.t, k.in.Hotplug.Replug())
}

func cpusOf(rings []*Ring) (cpus []int) {
	for _, r := range rings {
		cpus = append(cpus, r.CPU())
	}
	return cpus
}

func TestNewCPUGetsARing(t *testing.T) {
	k := newPluggable(t, 2)
	require.NoError(t, k.in.Hotplug.Replug())
	require.Len(t, k.Rings(), 2, "there is nothing to do")

	k.comes(firstCPU - 1)
	require.Equal(t, []int{firstCPU - 1, firstCPU, firstCPU + 1}, cpusOf(k.Rings()), "by number")
	require.Equal(t, []int{firstCPU - 1, firstCPU, firstCPU + 1}, k.Options().CPUs)
	k.requireEntries(plainEntry, plainEntry, plainEntry)
	k.output(2, 7)
	k.output(0, 8)
	require.Equal(t, []uint64{7, 8}, ids(t, k.unordered()), "the lower CPU first, as they are equally full")
	s := k.Stats()
	require.Equal(t, HotplugStats{Added: 1}, s.Hotplug)
	require.Equal(t, []int{firstCPU - 1, firstCPU, firstCPU + 1}, []int{s.Rings[0].CPU, s.Rings[1].CPU, s.Rings[2].CPU})
	require.EqualValues(t, 1, s.Rings[0].Samples)
	require.Empty(t, k.reopens)

	k.output(2, 9)
	require.NoError(t, k.Close())
	require.EqualValues(t, 1, k.Stats().Rings[0].Dropped, "its counts are made final too")
}

// A stream has the ring from its next round on.
func TestStreamTakesNewRingsIn(t *testing.T) {
	for name, make := range map[string]func(k *pluggable) (*Stream, func()){
		"slack": func(k *pluggable) (*Stream, func()) { return k.stream(), func() {} },
		"exact": func(k *pluggable) (*Stream, func()) {
			s, b := k.stepped(1<<40, StreamOptions{})
			return s, func() { require.NoError(t, b.Round()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newPluggable(t, 2)
			k.counts = true
			s, barrier := make(k)
			k.output(0, 10, 40)
			k.output(1, 20)
			barrier()
			require.NoError(t, s.ForEach(func(ev Event) error { // in the middle of a round
				if ev.Time() == 10 {
					k.comes(firstCPU + 2)
					k.output(2, 41, 42)
				}
				require.Less(t, ev.CPU(), firstCPU+2)
				return nil
			}))
			barrier()
			k.output(2, 50)
			k.output(0, 45)
			require.Equal(t, []uint64{41, 42, 45, 50}, ids(t, s))
			requireHeld(t, k.Rings()[2])

			n := k.fill(2, 60)
			lost := k.w[2].Lost()
			require.Positive(t, lost)
			barrier()
			require.Len(t, ids(t, s), n)
			k.output(2, 9000) // and reports the loss
			require.NoError(t, s.Close())
			require.Len(t, ids(t, k.unordered()), 2, "it is free again")
		})
	}
}

// With more rings than a key had bits for.
func TestStreamOfOneTakesASecondIn(t *testing.T) {
	k := newPluggable(t, 1)
	s := k.stream()
	k.output(0, 1)
	require.Equal(t, []uint64{1}, ids(t, s))
	k.comes(firstCPU + 1)
	k.comes(firstCPU - 1)
	k.output(0, 2, 5)
	k.output(1, 3, 6)
	k.output(2, 4, 7)
	require.Equal(t, seq(2, 7), ids(t, s))
}

func TestCPUThatIsBackGetsNewPerfEvents(t *testing.T) {
	k := newPluggable(t, 2)
	k.dead[1] = true
	k.online = k.online[:1]
	require.NoError(t, k.in.Hotplug.Replug())
	require.Empty(t, k.reopens, "it is offline")
	require.True(t, k.in.Entries.Arm(1))
	_, before := k.entriesNow()

	k.online = []int{firstCPU, firstCPU + 1}
	require.NoError(t, k.in.Hotplug.Replug())
	require.Equal(t, []int{1}, k.reopens)
	k.requireEntries(plainEntry, bellEntry)
	_, after := k.entriesNow()
	require.Equal(t, before+1, after, "its entry is set, and no other")
	require.Equal(t, HotplugStats{Reopened: 1}, k.Stats().Hotplug)
	require.NoError(t, k.in.Hotplug.Replug())
	require.Equal(t, []int{1}, k.reopens)
}

// While paused, entries stay empty.
func TestPauseHoldsForNewPerfEvents(t *testing.T) {
	k := newPluggable(t, 1)
	require.NoError(t, k.Pause())
	k.dead[0] = true
	k.comes(firstCPU + 1)
	require.Equal(t, []int{0}, k.reopens)
	k.requireEntries(noEntry, noEntry)
	require.NoError(t, k.Resume())
	k.requireEntries(plainEntry, plainEntry)
	require.NoError(t, k.Pause())
	k.requireEntries(noEntry, noEntry)
}

func TestWhatFailsForACPUIsTriedAgain(t *testing.T) {
	k := newPluggable(t, 1)
	k.dead[0] = true
	k.online = append(k.online, firstCPU+1)
	k.refusals = []error{syscall.EMFILE, syscall.ENODEV, nil, syscall.EMFILE}
	require.Equal(t, error(syscall.EMFILE), k.in.Hotplug.Replug())
	require.ErrorIs(t, k.Stats().Hotplug.Err, syscall.EMFILE)
	require.Equal(t, error(syscall.EMFILE), k.in.Hotplug.Replug())
	require.Len(t, k.Rings(), 1)
	require.Equal(t, []int{0}, k.reopens)
	k.refusals = []error{syscall.ENODEV}
	require.NoError(t, k.in.Hotplug.Replug(), "it is gone again")
	require.NoError(t, k.Stats().Hotplug.Err)

	k.belled.set = func(int, kernel.Entry) error { return syscall.EPERM }
	require.Equal(t, error(syscall.EPERM), k.in.Hotplug.Replug())
	require.Equal(t, error(syscall.EPERM), k.in.Hotplug.Replug(), "the entry is still not set")
	s := k.Stats().Hotplug
	require.ErrorIs(t, s.Err, syscall.EPERM)
	require.Equal(t, []uint64{1, 1}, []uint64{s.Reopened, s.Added})
	k.belled.set = nil
	require.NoError(t, k.in.Hotplug.Replug())
	k.requireEntries(plainEntry, plainEntry)

	k.online = append(k.online, 98, 99)
	require.NoError(t, k.in.Hotplug.Replug(), "there is room for as many as had been possible: it is no use to try again")
	require.ErrorContains(t, k.Stats().Hotplug.Err, "CPU 99")
	k.listing = os.ErrNotExist
	k.online = nil
	require.Equal(t, os.ErrNotExist, k.in.Hotplug.Replug())
}

func TestClosedReaderTakesNoCPUs(t *testing.T) {
	k := newPluggable(t, 1)
	require.NoError(t, k.Close())
	k.online = append(k.online, firstCPU+1)
	require.NoError(t, k.in.Hotplug.Replug())
	require.Len(t, k.Rings(), 1)
}

// A reader that sleeps until a bell rings looks at a new ring, which has none armed.
func TestWaitHearsOfANewRing(t *testing.T) {
	for name, make := range map[string]func(k *pluggable) *Stream{
		"unordered": func(k *pluggable) *Stream { return k.unordered() },
		"stream":    func(k *pluggable) *Stream { return k.stream() },
	} {
		runInBubble(t, name, func(t *testing.T) {
			k := newPluggable(t, 1)
			k.clocked()
			src := make(k)
			done := waitInBackground(func() error { return src.Wait(t.Context()) })
			time.Sleep(time.Minute)
			blocked(t, done)
			require.Equal(t, 1, k.Stats().Doorbell.Armed)
			k.comes(firstCPU + 1)
			k.output(1, uint64(time.Hour)) // no bell: it is not armed yet
			require.NoError(t, <-done)
			require.Equal(t, []uint64{uint64(time.Hour)}, ids(t, src))
			k.Close()
		})
	}
}

// fakeWatch announces CPUs on behalf of a test.
type fakeWatch struct {
	waits  chan time.Duration
	events chan bool
}

func (w *fakeWatch) Changed(atMost time.Duration) bool {
	w.waits <- atMost
	return <-w.events
}
func (w *fakeWatch) WatchErr() error { return nil }
func (w *fakeWatch) StopWatching()   { close(w.events) }

func TestReaderFollowsItsWatch(t *testing.T) {
	k := newPluggable(t, 1)
	w := &fakeWatch{waits: make(chan time.Duration), events: make(chan bool)}
	k.watch(w)
	k.Reader.in.Hotplug.Start()
	require.Zero(t, <-w.waits)
	k.online = append(k.online, firstCPU+1)
	k.refusals = []error{syscall.EMFILE}
	w.events <- true
	require.Equal(t, time.Second, <-w.waits, "it failed, and is tried again")
	require.Len(t, k.Rings(), 1)
	w.events <- true
	require.Zero(t, <-w.waits)
	require.Len(t, k.Rings(), 2)
	require.NoError(t, k.Close()) // closes events: follow returns
}

// A CPU for which the map has no entry never gets a ring: nothing is tried again, Stats go on
// saying why, and others are not kept from theirs.
func TestCPUForWhichTheMapIsTooSmall(t *testing.T) {
	k := newPluggable(t, 1)
	tooSmall := &MapError{MaxEntries: 1, Reason: "it is too small"}
	w := &fakeWatch{waits: make(chan time.Duration), events: make(chan bool)}
	k.watch(w)
	k.Reader.in.Hotplug.Start()
	require.Zero(t, <-w.waits)
	event := func(again time.Duration, refusals ...error) {
		t.Helper()
		k.refusals = refusals
		w.events <- true
		require.Equal(t, again, <-w.waits)
	}
	k.online = append(k.online, firstCPU+1)
	event(0, tooSmall)
	require.ErrorIs(t, k.Stats().Hotplug.Err, tooSmall)

	k.online = append(k.online, firstCPU-1)
	event(time.Second, tooSmall, syscall.EMFILE)
	event(time.Second, syscall.EMFILE, tooSmall)
	event(0, tooSmall, nil)
	require.Equal(t, []int{firstCPU - 1, firstCPU}, cpusOf(k.Rings()))
	require.ErrorIs(t, k.Stats().Hotplug.Err, tooSmall)
	require.EqualValues(t, 1, k.Stats().Hotplug.Added)

	k.listing = syscall.EMFILE
	event(time.Second, tooSmall)
	require.NoError(t, k.Close())
}

func TestWhoFollowsDoesNotKeepTheReader(t *testing.T) {
	w := &fakeWatch{waits: make(chan time.Duration), events: make(chan bool)}
	collected := make(chan bool)
	func() {
		r := newReader(ringtest.NewStill(nil, 0, ringtest.New(fakeRingSize, raw.LayoutRawTime, 0)), Options{Wakeup: Wakeup{Events: 1}})
		runtime.AddCleanup(r, func(int) { close(collected) }, 0)
		r.in.Parts.Watcher = w
		r.in.Follow()
		r.in.Hotplug.Start()
	}()
	<-w.waits
	for {
		runtime.GC()
		select {
		case <-collected:
			w.events <- true // nobody is left to act upon it
			w.StopWatching()
			return
		default:
			time.Sleep(time.Millisecond)
		}
	}
}

// hotpluggedKernel is a fakeKernel that announces CPUs.
type hotpluggedKernel struct {
	fakeKernel
	*fakeWatch
}

// A reader that is dropped has its remains cleaned up.
func TestDroppedReaderIsCleanedUp(t *testing.T) {
	w := &fakeWatch{waits: make(chan time.Duration, 1), events: make(chan bool)}
	steps := make(chan string, 3)
	drop := func(closed bool) {
		k := &hotpluggedKernel{fakeKernel{
			poll: newFakePoller(), memory: []*raw.Ring{ofCPU(0, ringtest.New(fakeRingSize, raw.LayoutRawTime, 0))},
			free: func() { steps <- "free" }, unhook: func() error { steps <- "unhook"; return nil },
		}, w}
		r := newReader(k, Options{Wakeup: Wakeup{Events: 1}})
		k.memory = nil // the cleanup must not refer to the reader
		engine.Start(&r.in, r)
		if closed {
			r.Close()
		}
	}
	drop(false)
	for len(steps) < 2 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	require.Equal(t, "unhook", <-steps)
	require.Equal(t, "free", <-steps)
	require.False(t, <-w.events, "the watch is closed")

	w = &fakeWatch{waits: make(chan time.Duration, 1), events: make(chan bool)}
	drop(true)
	require.Equal(t, "unhook", <-steps)
	require.Equal(t, "free", <-steps)
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	require.Empty(t, steps, "once")
}

// A new ring is the stream's before its next round too: read on its own, its events would be
// missing from the stream.
func TestNewRingIsTheStreams(t *testing.T) {
	k := newPluggable(t, 2)
	s, barrier := k.stepped(1<<40, StreamOptions{})
	k.comes(firstCPU - 1)
	k.output(2, 10)
	k.output(0, 20)
	requireHeld(t, k.all()[2])
	require.NoError(t, barrier.Round())
	require.Equal(t, []uint64{10, 20}, ids(t, s))

	k.comes(firstCPU + 2)
	k.output(3, 30)
	require.NoError(t, s.Close())
	require.Equal(t, []uint64{30}, ids(t, k.ring(3)), "free again, though the stream had no round with it")
	k.release()
	k.output(3, 40)
	require.Equal(t, []uint64{40}, ids(t, k.stream()))
}

// A stream that cannot be opened leaves no ring behind that came meanwhile.
func TestNewRingOfAStreamThatFails(t *testing.T) {
	k := newPluggable(t, 2)
	k.programs = &fakePrograms{opened: func() error {
		k.programs.opened = nil
		k.comes(firstCPU - 1)
		k.output(2, 10)
		requireHeld(t, k.all()[2])
		return errTest
	}}
	_, err := k.Stream(StreamOptions{})
	require.ErrorIs(t, err, errTest)
	require.Equal(t, []uint64{10}, ids(t, k.unordered()))
}

// CPUs come online while streams are opened and closed: each stream has all rings, and leaves none
// claimed.
func TestNewRingsWhileStreamsComeAndGo(t *testing.T) {
	for range 300 {
		k := newPluggable(t, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.comes(firstCPU + 1)
			k.comes(firstCPU - 1)
		}()
		for last := false; !last; {
			last = len(k.all()) == 3
			s := k.open(StreamOptions{Order: Slack(0)})
			for _, ring := range k.all() {
				requireHeld(t, ring)
			}
			require.NoError(t, s.Close())
		}
		<-done
		for i := range k.all() {
			k.output(i, 1)
		}
		require.Len(t, ids(t, k.unordered()), 3)
	}
}

// A ring is known before its entry is in the map: a barrier that looks at all rings afterwards
// covers even its first event.
func TestFirstEventOfANewRingIsNotLate(t *testing.T) {
	k := newPluggable(t, 1)
	s, barrier := k.stepped(1<<40, StreamOptions{})
	// At the latest, the entry is there when this returns
	k.belled.set = func(ring int, _ kernel.Entry) error {
		k.belled.set = nil
		k.output(ring, 10)
		k.output(0, 20)
		require.NoError(t, barrier.Round())
		require.Equal(t, []uint64{10, 20}, ids(t, s))
		return nil
	}
	k.comes(firstCPU + 1)
	require.Nil(t, k.belled.set)
	require.Zero(t, k.Stats().Late)
}
