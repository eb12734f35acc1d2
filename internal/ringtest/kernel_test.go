package ringtest_test

import (
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// newKernel makes a kernel with rings, whose clock advances by 1 with each reading.
func newKernel(cpus int) (*ringtest.Kernel, *ringtest.Buffer) {
	var clock atomic.Uint64
	k := ringtest.NewKernel(cpus, func(int) uint64 { return clock.Add(1) })
	var all []int
	for i := range cpus {
		all = append(all, i)
	}
	b := k.NewBuffer()
	b.Open(kernel.Setup{CPUs: all, RingBytes: 4096, WakeupEvents: 1})
	return k, b
}

func TestKernelRunsPrograms(t *testing.T) {
	k, b := newKernel(2)
	require.NoError(t, k.Output(0, []byte("a"))) // time 1
	p := k.Begin(1)
	p.Prepare([]byte("b")) // time 2
	require.NoError(t, k.Output(0, nil))
	require.NoError(t, k.Output(1, nil))
	require.NoError(t, p.Reserve())
	p.Copy()
	require.Equal(t, []uint64{4}, times(b.Ring(1)), "the time is taken first; the interrupt is over before room is reserved")
	require.True(t, p.Outputs())
	p.Publish()
	require.False(t, p.Outputs())
	require.NoError(t, p.Output([]byte("again")))
	p.End()
	require.Equal(t, []uint64{1, 3}, times(b.Ring(0)))
	require.Equal(t, []uint64{4, 2, 5}, times(b.Ring(1)))
	require.Equal(t, ringtest.Counts{Attempted: 3, Written: 3}, k.Counts(1))
}

// bpf_perf_event_output has room for three outputs that interrupt each other; the fourth, in an
// NMI, is refused.
func TestNestLimit(t *testing.T) {
	k, b := newKernel(1)
	var ps []*ringtest.Program
	for in := range ringtest.NMI {
		p := k.Begin(0)
		require.Equal(t, in, p.Context())
		p.Prepare(nil)
		ps = append(ps, p)
	}
	nmi := k.Begin(0)
	require.Equal(t, syscall.EBUSY, nmi.Output(nil))
	require.Panics(t, func() { k.Begin(0) })
	require.Panics(t, func() { k.Output(0, nil) })
	nmi.End()
	require.Equal(t, syscall.EBUSY, k.Output(0, nil))
	for i := len(ps) - 1; i >= 0; i-- {
		for ps[i].Step() {
		}
		ps[i].End()
	}
	require.Equal(t, []uint64{3, 2, 1}, times(b.Ring(0)))
	require.Equal(t, ringtest.Counts{Attempted: 5, Written: 3, Refused: 2}, k.Counts(0))
	require.Zero(t, lostOf(b, 0), "no ring counts what is refused")
	require.NoError(t, k.Output(0, nil))
}

func TestNoRing(t *testing.T) {
	k, b := newKernel(2)
	early := k.Begin(0)
	early.Prepare(nil) // has found the ring
	later := k.Begin(1)
	later.Prepare(nil)
	b.Unhook()
	require.Equal(t, syscall.ENOENT, k.Output(0, nil))
	require.NoError(t, early.Reserve())
	early.Copy()
	early.Publish()
	early.End()
	require.Len(t, records(b.Ring(0)), 1)
	b.Free()
	require.Equal(t, syscall.ENOSPC, later.Reserve(), "as __perf_output_begin without a buffer")
	later.End()
	require.Equal(t, ringtest.Counts{Attempted: 2, Written: 1, Refused: 1}, k.Counts(0))
	require.Equal(t, ringtest.Counts{Attempted: 1, Refused: 1}, k.Counts(1))
	require.Zero(t, lostOf(b, 1))

	again := k.NewBuffer()
	again.Open(kernel.Setup{CPUs: []int{1}, RingBytes: 4096, NoTime: true, WakeupEvents: 1})
	require.Len(t, again.Rings(), 1)
	require.Equal(t, syscall.ENOENT, k.Output(0, nil), "has no ring in this buffer")
	require.NoError(t, k.Output(1, nil))
}

func TestGracePeriod(t *testing.T) {
	k, _ := newKernel(2)
	require.True(t, k.Grace().Over(), "nothing runs")
	task := k.Begin(0)
	task.Preempt()
	other := k.Begin(0)
	irq := k.Begin(0)
	require.Len(t, k.Running(0), 2)
	require.Len(t, k.Preempted(0), 1)
	g := k.Grace()
	second := k.Grace()
	late := k.Begin(1)
	irq.End()
	other.End()
	require.False(t, g.Over())
	stop := make(chan struct{})
	close(stop)
	require.False(t, g.Wait(stop))
	task.Resume()
	require.NoError(t, task.Output(nil))
	require.False(t, g.Over())
	waited := make(chan bool)
	go func() { waited <- second.Wait(nil) }()
	task.End()
	require.True(t, <-waited)
	require.True(t, g.Over(), "what began later is not waited for")
	require.False(t, k.Grace().Over())
	late.End()
	require.True(t, k.Grace().Over())
}

func TestWhatKernelsDoNotDo(t *testing.T) {
	for name, f := range map[string]func(k *ringtest.Kernel, p *ringtest.Program){
		"there is no CPU 1":                   func(k *ringtest.Kernel, _ *ringtest.Program) { k.Output(1, nil) },
		"the program has no output under way": func(_ *ringtest.Kernel, p *ringtest.Program) { p.Reserve() },
		"no output":                           func(_ *ringtest.Kernel, p *ringtest.Program) { p.Step() },
		"has prepared an output and not":      func(_ *ringtest.Kernel, p *ringtest.Program) { p.Prepare(nil); p.Prepare(nil) },
		"Copy: the program has prepared":      func(_ *ringtest.Kernel, p *ringtest.Program) { p.Prepare(nil); p.Copy() },
		"reserved and not copied":             func(_ *ringtest.Kernel, p *ringtest.Program) { p.Prepare(nil); p.Reserve(); p.Publish() },
		"End: the program has copied":         func(_ *ringtest.Kernel, p *ringtest.Program) { p.Prepare(nil); p.Reserve(); p.Copy(); p.End() },
		"Prepare: the program has ended":      func(_ *ringtest.Kernel, p *ringtest.Program) { p.End(); p.Prepare(nil) },
		"interrupted by one that has to":      func(k *ringtest.Kernel, p *ringtest.Program) { k.Begin(0); p.Prepare(nil) },
		"Preempt: the program has prepared":   func(_ *ringtest.Kernel, p *ringtest.Program) { p.Prepare(nil); p.Preempt() },
		"only a task is preempted":            func(k *ringtest.Kernel, _ *ringtest.Program) { k.Begin(0).Preempt() },
		"is preempted":                        func(_ *ringtest.Kernel, p *ringtest.Program) { p.Preempt(); p.End() },
		"is not preempted":                    func(_ *ringtest.Kernel, p *ringtest.Program) { p.Resume() },
		"another program runs":                func(k *ringtest.Kernel, p *ringtest.Program) { p.Preempt(); k.Begin(0); p.Resume() },
		"a softirq does not interrupt a softirq": func(k *ringtest.Kernel, _ *ringtest.Program) {
			k.BeginIn(0, ringtest.SoftIRQ)
			k.BeginIn(0, ringtest.SoftIRQ)
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := newKernel(1)
			p := k.Begin(0)
			func() {
				defer func() { require.Contains(t, recover(), name) }()
				f(k, p)
			}()
			k.Counts(0) // the CPU is not left locked
		})
	}
}

func TestSettled(t *testing.T) {
	type outcome struct {
		cpu     int
		time    uint64
		payload string
		err     error
	}
	var got []outcome
	k, b := newKernel(1)
	k.Settled = func(cpu int, time uint64, payload []byte, err error) {
		got = append(got, outcome{cpu, time, string(payload), err})
	}
	huge := make([]byte, 5000)
	require.Error(t, k.Output(0, huge))
	require.NoError(t, k.Output(0, []byte("a"))) // time 2, and 3 for the report
	b.Unhook()
	require.Error(t, k.Output(0, []byte("b")))
	require.Equal(t, []outcome{{0, 1, string(huge), syscall.ENOSPC}, {0, 3, "a", nil}, {0, 0, "b", syscall.ENOENT}}, got)
	require.Equal(t, ringtest.Counts{Attempted: 3, Written: 1, Lost: 1, Refused: 1}, k.Counts(0))
	require.EqualValues(t, 1, lostOf(b, 0))
}

func TestWakesAreRememberedOnce(t *testing.T) {
	k, b := newKernel(2)
	for range 3 {
		require.NoError(t, k.Output(0, nil))
		require.NoError(t, k.Output(1, nil))
	}
	<-b.Wakes()
	require.Empty(t, b.Wakes())
}

// An output that fails publishes the outputs within it, and so wakes readers for them.
func TestWakeByAnOutputThatFails(t *testing.T) {
	k, b := newKernel(1)
	p := k.Begin(0)
	p.Prepare(make([]byte, 5000))
	require.True(t, p.Step())
	require.NoError(t, k.Output(0, nil))
	require.Empty(t, b.Wakes())
	require.Equal(t, syscall.ENOSPC, p.Reserve())
	require.Len(t, b.Wakes(), 1)
}

// On one CPU each output is whole, even when several goroutines ask for them.
func TestKernelConcurrently(t *testing.T) {
	const writers, outputs = 4, 2000
	k, b := newKernel(2)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range uint64(outputs) {
				k.Output(w%2, ringtest.Payload(i, 20))
				if i%100 == 0 {
					k.Grace().Wait(nil)
				}
			}
		})
	}
	wg.Wait()
	for i := range 2 {
		c := k.Counts(i)
		require.EqualValues(t, writers/2*outputs, c.Attempted)
		require.Equal(t, c.Attempted, c.Written+c.Lost)
		require.Equal(t, c.Lost, lostOf(b, i))
		for _, rec := range records(b.Ring(i)) {
			require.Equal(t, raw.Sample, rec.Kind)
		}
	}
}

func TestOutputDoesNotAllocate(t *testing.T) {
	k, b := newKernel(1)
	payload := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		k.Output(0, payload)
		b.Ring(0).Output(1, payload)
	}))
}

func lostOf(b *ringtest.Buffer, ring int) uint64 {
	n, _ := b.Lost(ring)
	return n
}

// A reader leaves a later one's entries alone, until it has emptied its own entry and stores it
// again.
func TestTwoReaders(t *testing.T) {
	k, old := newKernel(1)
	setup := kernel.Setup{CPUs: []int{0}, RingBytes: 4096, NoTime: true, WakeupEvents: 1}
	later := k.NewBuffer()
	later.Open(setup)
	for _, to := range []kernel.Entry{kernel.Bell, kernel.Empty} {
		require.NoError(t, old.Set(0, to))
		require.NoError(t, k.Output(0, nil))
	}
	require.Len(t, records(later.Ring(0)), 2)
	require.NoError(t, old.Set(0, kernel.Plain))
	require.NoError(t, k.Output(0, nil))
	require.Len(t, records(old.Ring(0)), 1)
	later.Unhook()
	require.NoError(t, k.Output(0, nil))
	old.Unhook()
	require.Equal(t, syscall.ENOENT, k.Output(0, nil))
}
