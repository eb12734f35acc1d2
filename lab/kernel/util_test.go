//go:build linux && cgo

package kernel_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// loadAndOpen loads the workload, and opens its perf event array.
func loadAndOpen(t testing.TB, opts perfbuf.Options) (*kerneltest.Emitter, *perfbuf.Reader) {
	t.Helper()
	e := kerneltest.Load(t)
	return e, open(t, e, opts)
}

// open opens a reader that is closed when the test ends.
func open(t testing.TB, e *kerneltest.Emitter, opts perfbuf.Options) *perfbuf.Reader {
	t.Helper()
	r, err := perfbuf.Open(e.MapFD(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// emitOnAll outputs on the CPUs of a reader's rings.
func emitOnAll(e *kerneltest.Emitter, r *perfbuf.Reader, count, size int) {
	e.EmitOn(r.Options().CPUs, count, size)
}

// exact opens a stream in exact order.
func exact(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream {
	return openStream(t, r, perfbuf.StreamOptions{})
}

// ordered opens an ordered stream with a slack of 0: all events in the rings are due.
func ordered(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream {
	return openStream(t, r, perfbuf.StreamOptions{Order: perfbuf.Slack(0), Spill: perfbuf.Spill{Bytes: -1}})
}

// unordered opens an unordered stream.
func unordered(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream {
	return openStream(t, r, perfbuf.StreamOptions{Order: perfbuf.Unordered()})
}

// openStream opens a stream, which ends with its reader unless the test closes it.
func openStream(t testing.TB, r *perfbuf.Reader, o perfbuf.StreamOptions) *perfbuf.Stream {
	t.Helper()
	s, err := r.Stream(o)
	require.NoError(t, err)
	return s
}

// ofRing opens the stream of a ring.
func ofRing(t testing.TB, ring *perfbuf.Ring) *perfbuf.Stream {
	t.Helper()
	s, err := ring.Stream()
	require.NoError(t, err)
	return s
}

// ofRings opens a stream for each ring.
func ofRings(t testing.TB, r *perfbuf.Reader) (streams []*perfbuf.Stream) {
	t.Helper()
	for _, ring := range r.Rings() {
		streams = append(streams, ofRing(t, ring))
	}
	return streams
}

// forEach is a pass over a source.
func forEach(src *perfbuf.Stream, f func(perfbuf.Event) error) error {
	_, err := perfbuf.Fold(src, 0, func(_ int, ev perfbuf.Event) (int, error) { return 0, f(ev) })
	return err
}

// collect returns copies of the events of one pass.
func collect(t testing.TB, src *perfbuf.Stream) (recs []perfbuf.Record) {
	t.Helper()
	require.NoError(t, src.ForEach(func(ev perfbuf.Event) error {
		recs = append(recs, ev.Record())
		return nil
	}))
	return recs
}

// recordSize is how many bytes of a ring an output of size bytes takes.
func recordSize(size int) int { return 8 + 8 + (4+size+7)&^7 }

// wrapped follows the position in each CPU's ring: all its events pass through by, and are samples.
type wrapped map[int]int

// by reports whether an event wraps around its ring's edge.
func (w *wrapped) by(ev perfbuf.Event, ringBytes int) bool {
	if *w == nil {
		*w = wrapped{}
	}
	before, size := (*w)[ev.CPU()], recordSize(len(ev.Bytes()))
	(*w)[ev.CPU()] = before + size
	return before%ringBytes+size > ringBytes
}

// ledger keeps account of one emitter's events: that each output of each CPU
// arrives once, in the order of outputs, byte by byte, or is reported as lost, and
// that losses are reported exactly where and how large they were.
type ledger struct {
	t    testing.TB
	cpus map[int]*account
}

type account struct {
	next      uint64 // number expected next
	gap       uint64 // lost just before it
	delivered uint64
	lost      uint64
	time      uint64 // of the latest event
	sample    uint64 // time of the latest sample
}

func newLedger(t testing.TB) *ledger { return &ledger{t: t, cpus: map[int]*account{}} }

// add takes an event into account. It may be used as a Run's function.
func (l *ledger) add(ev perfbuf.Event) error {
	a := l.cpus[ev.CPU()]
	if a == nil {
		a = &account{}
		l.cpus[ev.CPU()] = a
	}
	a.add(l.t, ev)
	return nil
}

func (a *account) add(t testing.TB, ev perfbuf.Event) {
	if ev.Time() < a.time {
		t.Errorf("CPU %d: time went back by %d ns", ev.CPU(), a.time-ev.Time())
	}
	switch ev.Kind() {
	case perfbuf.KindLost:
		if ev.Lost() == 0 {
			t.Errorf("CPU %d: loss of nothing", ev.CPU())
		}
		if ev.LostAfter() != a.sample {
			t.Errorf("CPU %d: loss after %d, but the sample before has time %d", ev.CPU(), ev.LostAfter(), a.sample)
		}
		a.gap += ev.Lost() // more than one, if a stream has asked the kernel
		a.lost += ev.Lost()
	case perfbuf.KindSample:
		p, err := kerneltest.Check(ev.Bytes())
		if err != nil {
			t.Error(err)
		}
		if p.CPU != ev.CPU() || p.Seq != a.next+a.gap {
			t.Errorf("CPU %d: got event %d of CPU %d, want %d after %d lost", ev.CPU(), p.Seq, p.CPU, a.next+a.gap, a.gap)
		}
		a.next, a.gap, a.sample = p.Seq+1, 0, ev.Time()
		a.delivered++
	default:
		t.Errorf("CPU %d: %v: %v", ev.CPU(), ev.Kind(), ev.Err())
	}
	a.time = ev.Time()
}

// balance requires that everything attempted was delivered or reported as lost, and that refused
// and lost are the same.
func (l *ledger) balance(e *kerneltest.Emitter, r *perfbuf.Reader) {
	l.t.Helper()
	stats := r.Stats()
	sums, err := e.Sums()
	require.NoError(l.t, err)
	for i, ring := range r.Rings() {
		a := l.cpus[ring.CPU()]
		require.NotNil(l.t, a, "nothing came of CPU %d", ring.CPU())
		c := sums[ring.CPU()]
		require.NoError(l.t, c.Balance(workload.Outcome{Delivered: a.delivered, Lost: a.lost}, true), "CPU %d", ring.CPU())
		require.Equal(l.t, c.Attempted, a.delivered+a.lost, "CPU %d", ring.CPU())
		require.Zero(l.t, c.Uncounted(), "CPU %d", ring.CPU())
		require.Equal(l.t, a.delivered, stats.Rings[i].Samples, "CPU %d", ring.CPU())
		require.Equal(l.t, a.lost, stats.Rings[i].Lost, "CPU %d", ring.CPU())
		require.Zero(l.t, stats.Rings[i].Corrupt)
		require.Zero(l.t, stats.Rings[i].Unknown)
	}
}

func (l *ledger) delivered() (n uint64) {
	for _, a := range l.cpus {
		n += a.delivered
	}
	return n
}

func (l *ledger) lost() (n uint64) {
	for _, a := range l.cpus {
		n += a.lost
	}
	return n
}

// background runs f in a goroutine, and has the test wait for its end. The channel is then closed.
func background(t testing.TB, f func()) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	t.Cleanup(func() { <-ended })
	return ended
}

// load emits on CPUs, one goroutine each, in bursts of random length and size with
// pauses in between, until the function it returns is called.
func load(t testing.TB, e *kerneltest.Emitter, cpus []int, maxSize int, pause time.Duration) (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	for _, cpu := range cpus {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(cpu), 1))
			// Each CPU outputs, however late its turn comes
			for first := true; first || !done.Load(); first = false {
				e.Emit(cpu, 1+rnd.IntN(200), kerneltest.MinSize+rnd.IntN(maxSize-kerneltest.MinSize+1))
				if pause > 0 {
					time.Sleep(pause)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { done.Store(true); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// belongings lists the descriptors and ring mappings that a reader may leak.
func belongings(t testing.TB) (all []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		switch link, _ := os.Readlink("/proc/self/fd/" + fd.Name()); link {
		case "anon_inode:[perf_event]", "anon_inode:[eventpoll]", "anon_inode:bpf-map":
			all = append(all, link)
		}
	}
	sort.Strings(all)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[perf_event]") || strings.Contains(line, "bpf-map") {
			all = append(all, "mapping of a ring")
		}
	}
	return all
}

// shut closes a reader and waits until its counts are final: a goroutine still inside, for example
// after a CPU's state changed, finishes it.
func shut(t testing.TB, r *perfbuf.Reader) {
	t.Helper()
	require.NoError(t, r.Close())
	<-r.Done()
}

// atRest returns belongings once nobody waits for programs on behalf of readers of earlier tests.
func atRest(t testing.TB) []string {
	t.Helper()
	for buf := make([]byte, 1<<20); strings.Contains(string(buf[:runtime.Stack(buf, true)]), "ringfold/internal/grace."); {
		runtime.Gosched()
	}
	return belongings(t)
}

// returned waits until closed readers have released everything: waiting for programs may take
// longer than Close does.
func returned(t testing.TB, before []string) {
	t.Helper()
	for !slices.Equal(before, belongings(t)) {
		time.Sleep(time.Millisecond)
	}
}

// In Go's poller, or where waits are frequent, in a system call.
const polling = "IO wait|syscall"

// parked waits until a goroutine is blocked in one of these states ("": any), with all of these
// functions on its stack. It panics if the program has no such function, as it would wait for
// ever.
func parked(states string, funcs ...string) {
	for _, f := range funcs {
		if !bytes.Contains(program(), []byte("/"+f)) {
			panic("no function is called " + f)
		}
	}
	buf := make([]byte, 1<<20)
	for {
	stacks:
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			first, _, _ := strings.Cut(stack, "\n")
			if !slices.ContainsFunc(strings.Split(states, "|"), func(s string) bool { return strings.Contains(first, "["+s) }) {
				continue
			}
			for _, f := range funcs {
				if !strings.Contains(stack, f+"(") {
					continue stacks
				}
			}
			return
		}
		runtime.Gosched()
	}
}

// program is the test binary, whose line table has the names of all functions.
var program = sync.OnceValue(func() []byte {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	return b
})

// scarceDescriptors returns a function that opens a Reader with so many descriptors left to get.
func scarceDescriptors(t *testing.T) (openWith func(free int, e *kerneltest.Emitter) (*perfbuf.Reader, error)) {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	// The limit is on numbers, not on how many: fill the gaps first.
	last := 0
	for last < 100 {
		fd, err := unix.Open(os.DevNull, unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		last = fd
	}
	return func(free int, e *kerneltest.Emitter) (*perfbuf.Reader, error) {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(last + 1 + free), Max: limit.Max}))
		r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		return r, err
	}
}

// checked says that this build trades allocations for checks.
var checked bool

// waitLog receives eventually's messages. t.Log would show nothing when the run exceeds its
// -timeout.
var waitLog io.Writer = os.Stderr

// eventually waits until cond holds, for as long as it takes. It logs its condition every 30 s.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	const every = 30 * time.Second
	began, said := time.Now(), 0*every
	for !cond() {
		if waited := time.Since(began); waited >= said+every {
			said = waited.Truncate(every)
			fmt.Fprintf(waitLog, "%s: waiting for %v: %s\n", t.Name(), said, what)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func TestEventuallySaysWhatItWaitsFor(t *testing.T) {
	before := waitLog
	defer func() { waitLog = before }()
	var said strings.Builder
	waitLog = &said
	synctest.Test(t, func(t *testing.T) {
		wait := func(d time.Duration) {
			began := time.Now()
			eventually(t, "the time to come", func() bool {
				time.Sleep(time.Second)
				return time.Since(began) >= d
			})
		}
		wait(20 * time.Second)
		require.Empty(t, said.String())
		wait(100 * time.Second)
		wait(20 * time.Second)
	})
	name := t.Name() + ": waiting for "
	require.Equal(t, name+"30s: the time to come\n"+name+"1m0s: the time to come\n"+name+"1m30s: the time to come\n", said.String())
}

func TestMain(m *testing.M) { leak.Main(m) }
