package perfbuf

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// countedGroup is a kernel's Group that counts its end. It takes in nobody if refuses is set.
type countedGroup struct {
	kernel.Group
	closed  *atomic.Int32
	refuses bool
}

func (g countedGroup) Close() { g.closed.Add(1); g.Group.Close() }

func (g countedGroup) Add(k kernel.Kernel) error {
	if g.refuses {
		return errTest
	}
	return g.Group.Add(k)
}

// However a stream ends, even during a change, it ends its barriers and groups, once each, and
// releases its sources.
func TestStreamLeavesNothingOpen(t *testing.T) {
	type world struct {
		a, b, c *fake // the programs of b and c take times themselves
		s       *Stream
		refuses bool
	}
	within := func(f func(t *testing.T, w *world)) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			once := false
			w.a.hooks.yield = func() {
				if !once {
					once = true
					f(t, w)
				}
			}
			w.s.ForEach(never)
			require.True(t, once)
		}
	}
	for name, c := range map[string]struct {
		end              func(t *testing.T, w *world)
		barriers, groups int
	}{
		"two sources": {func(t *testing.T, w *world) { require.NoError(t, w.s.Add(w.b.Reader)) }, 2, 1},
		"the first has gone": {func(t *testing.T, w *world) {
			require.NoError(t, w.s.Add(w.b.Reader))
			require.NoError(t, w.s.Remove(w.a.Reader))
		}, 2, 1},
		"a source that cannot be waited for": {func(t *testing.T, w *world) {
			w.refuses = true
			require.ErrorIs(t, w.s.Add(w.b.Reader), errTest)
		}, 2, 1},
		"a source comes within the last pass": {within(func(t *testing.T, w *world) {
			require.NoError(t, w.s.Add(w.b.Reader))
			require.NoError(t, w.s.Close())
		}), 2, 1},
		"a source comes and goes within a pass": {within(func(t *testing.T, w *world) {
			require.NoError(t, w.s.Add(w.b.Reader))
			require.NoError(t, w.s.Remove(w.b.Reader))
			requireFree(t, w.b.Reader)
		}), 2, 1},
		"two sources come at once within a pass": {within(func(t *testing.T, w *world) {
			w.b.programs.opened = func() error { return w.s.Add(w.c.Reader) }
			require.NoError(t, w.s.Add(w.b.Reader))
		}), 3, 1},
		"a source is closed": {func(t *testing.T, w *world) {
			require.NoError(t, w.s.Add(w.b.Reader))
			require.NoError(t, w.b.Close())
			synctest.Wait()
			require.Equal(t, w.b.programs.opens.Load(), w.b.programs.closes.Load(), "the barrier needs no Close of the stream")
		}, 3, 1}, // its end waits for programs, too
		"a source is closed that has come within a pass": {within(func(t *testing.T, w *world) {
			require.NoError(t, w.s.Add(w.b.Reader))
			require.NoError(t, w.b.Close())
		}), 3, 1},
	} {
		runInBubble(t, name, func(t *testing.T) {
			w := &world{a: newFake(t, 1, Options{}), b: newFake(t, 1, Options{Time: PayloadTime(0)}), c: newFake(t, 1, Options{Time: PayloadTime(0)})}
			all := []*fake{w.a, w.b, w.c}
			var groups, closed atomic.Int32
			for _, k := range all {
				k.programs = &fakePrograms{}
				k.hooks.group = func() (kernel.Group, error) {
					groups.Add(1)
					g, err := k.poll.Group()
					return countedGroup{g, &closed, w.refuses}, err
				}
			}
			var err error
			w.s, err = w.a.Stream(StreamOptions{})
			require.NoError(t, err)
			c.end(t, w)
			require.NoError(t, w.s.Close())
			synctest.Wait()
			var opens, closes int32
			for _, k := range all {
				opens, closes = opens+k.programs.opens.Load(), closes+k.programs.closes.Load()
				if k.freed.Load() == 0 {
					requireFree(t, k.Reader)
					require.Equal(t, 1, k.in.Gate.Inside())
				}
			}
			require.EqualValues(t, []int{c.barriers, c.barriers, c.groups, c.groups}, []int{int(opens), int(closes), int(groups.Load()), int(closed.Load())},
				"barriers and groups that were opened, and closed")
			// Otherwise the garbage collector would close the barrier with the stream
			runtime.KeepAlive(w)
		})
	}
}

// The barrier of a stream waits for outputs, until a source comes whose programs take times
// themselves: for these it has to wait for whole programs, also if that source goes again.
func TestBarrierIsReplaced(t *testing.T) {
	a, b, c := newFake(t, 1, Options{}), newFake(t, 1, Options{Time: PayloadTime(0)}), newFake(t, 1, Options{Time: PayloadTime(0)})
	for _, k := range []*fake{a, b, c} {
		k.programs = &fakePrograms{}
	}
	s := a.open(StreamOptions{Barriers: NestLevels | Membarrier})
	require.False(t, a.programs.options.Programs)
	require.NoError(t, s.Add(b.Reader))
	require.EqualValues(t, 1, b.programs.opens.Load())
	require.True(t, b.programs.options.Programs)
	require.NoError(t, s.Remove(b.Reader))
	require.NoError(t, s.Add(c.Reader))
	require.Zero(t, c.programs.opens.Load(), "b's is there")
}

// Stamped sources need no barrier. That of a stream which has others too waits for what these need,
// whichever comes first.
func TestBarrierIsNotForStamped(t *testing.T) {
	for name, o := range map[string]StreamOptions{"any": {}, "none for programs": {Barriers: NestLevels}} {
		for first := range 2 {
			k, stamped := newFake(t, 1, Options{}), newFake(t, 1, Options{Time: StampedTime(0)})
			k.programs, stamped.programs = &fakePrograms{}, &fakePrograms{}
			readers := []*Reader{stamped.Reader, k.Reader}
			s, err := Merge(o, readers[first], readers[1-first])
			require.NoError(t, err, name)
			require.Equal(t, grace.Options{Allow: grace.Set(o.Barriers)}, k.programs.options, name)
			require.NoError(t, s.Close())
			require.Zero(t, stamped.programs.opens.Load(), name)
			require.EqualValues(t, 1, k.programs.opens.Load(), name)
		}
	}
}

// A source whose end has begun, and of which the stream does not know yet, keeps no other from
// ending.
func TestCloseBesideAcquire(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader, b.Reader)
	require.NoError(t, err)
	require.True(t, b.in.Gate.Close())
	require.Equal(t, os.ErrClosed, s.ForEach(never))
	require.NoError(t, s.Close())
	require.NoError(t, a.Close())
	require.EqualValues(t, 1, a.freed.Load())
	b.in.Gate.Leave()
}

// askedPoller makes the waiter check, during an interrupt, whether to go on, as it may at that
// moment.
type askedPoller struct {
	*fakePoller
	ask, told atomic.Bool
	ready     func(woken bool) bool
}

func (p *askedPoller) Wait(until time.Time, ready func(woken bool) bool) error {
	p.ready = ready
	return p.fakePoller.Wait(until, ready)
}

func (p *askedPoller) Interrupt() {
	if p.ask.Swap(false) {
		p.told.Store(p.ready(false))
	}
	p.fakePoller.Interrupt()
}

// An interrupted waiter sees the reason, however quickly it looks: no second interrupt comes.
func TestInterruptsComeLast(t *testing.T) {
	for name, interrupt := range map[string]func(s *Stream, a, b *fake) error{
		"Add":              func(s *Stream, _, b *fake) error { return s.Add(b.Reader) },
		"Remove":           func(s *Stream, a, _ *fake) error { return s.Remove(a.Reader) },
		"Flush":            func(s *Stream, _, _ *fake) error { return s.Flush() },
		"Close":            func(s *Stream, _, _ *fake) error { return s.Close() },
		"a source's Close": func(_ *Stream, a, _ *fake) error { return a.Close() },
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, b := twoReaders(t)
			p := &askedPoller{fakePoller: a.poll}
			a.hooks.poll = p
			s := a.open(StreamOptions{Order: Slack(0)})
			done := waitInBackground(func() error { return s.Wait(t.Context()) })
			blocked(t, done)
			p.ask.Store(true)
			require.NoError(t, interrupt(s, a, b))
			require.False(t, p.ask.Load(), "it was interrupted")
			require.True(t, p.told.Load(), "it would have slept on")
			s.Close()
			<-done
		})
	}
}

// A reader that was removed and dropped is collected while its stream stays open.
func TestRemovedReaderIsCollected(t *testing.T) {
	for name, order := range map[string]Order{"unordered": Unordered(), "ordered": Slack(0)} {
		t.Run(name, func(t *testing.T) {
			stays, collected := newFake(t, 1, Options{}), make(chan struct{})
			s := func() *Stream {
				k := ringtest.NewStill(func() uint64 { return 1 }, 0, ringtest.New(fakeRingSize, raw.LayoutRawTime, 0))
				r := newReader(k, Options{Wakeup: Wakeup{Events: 1}})
				runtime.AddCleanup(r, func(collected chan struct{}) { close(collected) }, collected)
				s, err := Merge(StreamOptions{Order: order}, r, stays.Reader)
				require.NoError(t, err)
				require.NoError(t, s.Remove(r))
				return s
			}()
			for {
				runtime.GC()
				select {
				case <-collected:
					require.NoError(t, s.Close())
					return
				default:
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}

// A Flush ends the Wait of a stream without sources, and a pass answers it.
func TestFlushWithoutSources(t *testing.T) {
	for name, order := range map[string]Order{"unordered": Unordered(), "ordered": Slack(0)} {
		runInBubble(t, name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			s := k.open(StreamOptions{Order: order})
			require.NoError(t, s.Remove(k.Reader))
			done := waitInBackground(func() error { return s.Wait(t.Context()) })
			blocked(t, done)
			require.NoError(t, s.Flush())
			require.NoError(t, <-done)
			require.Len(t, copies(t, s), 1)
			require.NoError(t, s.Close())
		})
	}
}
