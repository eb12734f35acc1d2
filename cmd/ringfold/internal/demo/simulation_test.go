package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// simulates runs the program's core on a simulation, with -json, and holds what it printed against
// what the simulated kernel has counted.
func simulates(t *testing.T, c config, enough func(*stream) bool) *stream {
	t.Helper()
	c.simulate = true
	if c.ringSize == 0 {
		c.ringSize = 4 << 10 // so that now and then one overflows
	}
	simulated := newSimulation(simulatedCPUs, c.seed)
	var src source = simulated
	if c.count > 0 {
		src = ending{simulated}
	}
	s := followsOn(t, src, c, enough)
	require.True(t, s.summary.Simulated)
	var attempted, written, lost uint64
	for cpu := range simulatedCPUs {
		n := simulated.kernel.Counts(cpu)
		require.Zero(t, n.Refused)
		attempted += n.Attempted
		written += n.Written
		lost += n.Lost
	}
	sum := s.summary
	require.Equal(t, []uint64{attempted, lost, written}, []uint64{sum.Outputs, sum.Lost, sum.Samples + sum.Unread})
	return s
}

// ending waits for running programs when it is detached. At a limit nobody else does: there is no drain, and closing
// a simulated reader does not wait. What those programs output would be in no count.
type ending struct{ *simulation }

func (s ending) detach() error {
	err := s.simulation.detach()
	for _, c := range s.cpus {
		c.busy <- struct{}{}
		<-c.busy
	}
	return err
}

func TestSimulation(t *testing.T) {
	for name, c := range map[string]config{
		"exact":       {mode: exact},
		"slack":       {mode: slack, slack: time.Millisecond},
		"large rings": {mode: exact, ringSize: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.seed = 1
			s := simulates(t, c, func(s *stream) bool {
				if c.ringSize > 4096 && len(s.lines) < 500 || c.ringSize == 0 && s.losses == 0 || len(s.perCPU) < simulatedCPUs {
					return false
				}
				return s.has(func(l line) bool { return l.Event == "exec" && *l.Comm == "gcc" && l.Filename == "/usr/bin/gcc" }) &&
					s.has(func(l line) bool { return l.Event == "exit" && l.ExitCode != nil && *l.ExitCode == 0 })
			})
			events := map[string]bool{}
			for _, l := range s.lines {
				events[l.Event] = true
			}
			require.Equal(t, c.ringSize == 0, events["lost"])
		})
	}
}

// A process forks before it runs a program, and does that before it ends, on whichever CPUs.
func TestSimulatedLife(t *testing.T) {
	s := simulates(t, config{seed: 5, ringSize: 1 << 20}, func(s *stream) bool { return len(s.lines) > 300 })
	last := map[uint32]string{}
	for _, l := range s.lines {
		was := last[*l.PID]
		switch l.Event {
		case "exec":
			require.Equal(t, "", was)
		case "exit":
			require.Contains(t, []string{"exec", "fork", "exit"}, was)
		}
		last[*l.PID] = l.Event
	}
}

func TestSimulationLimit(t *testing.T) {
	s := simulates(t, config{seed: 1, count: 10}, never)
	require.Len(t, s.lines, 10)
}

// Each process does the same in each run of a seed. In a bubble it also takes no time.
func TestSeed(t *testing.T) {
	life := func(seed uint64) (byPID map[uint32][]string) {
		byPID = map[uint32][]string{}
		synctest.Test(t, func(t *testing.T) {
			s := simulates(t, config{seed: seed, ringSize: 1 << 20, duration: 5 * time.Second}, never)
			for _, l := range s.lines {
				byPID[*l.PID] = append(byPID[*l.PID], fmt.Sprint(*l.CPU, l.Event, *l.Comm))
			}
		})
		return byPID
	}
	first := life(1)
	require.Greater(t, len(first), 200)
	again := life(1)
	differ := 0
	for pid, did := range first {
		n := min(len(did), len(again[pid])) // the end may find it at one thing or the next
		if len(did)-n > 3 || len(again[pid])-n > 3 {
			differ++
		}
		require.Equal(t, did[:n], again[pid][:n])
	}
	require.Less(t, differ, 10)
	require.NotEqual(t, first, life(2))
}

// What is simulated is laid out as what BPF programs output.
func TestEncode(t *testing.T) {
	e := lifecycle.Event{Kind: lifecycle.Exit, PID: 1, TID: 2, ChildPID: 3, ChildTID: 4, Code: -5, CommBytes: [16]byte{6}, FileBytes: [128]byte{127: 7}}
	b := lifecycle.Encode(e)
	require.Len(t, b, 168) // sizeof(struct event)
	require.EqualValues(t, unsafe.Sizeof(e), len(b))
	require.Equal(t, unsafe.Slice((*byte)(unsafe.Pointer(&e)), unsafe.Sizeof(e)), b)
}

// failing is a source that fails at some point.
type failing struct {
	*simulation
	at     string
	closed bool
}

func (f *failing) fail(at string) error {
	if f.at == at {
		return fmt.Errorf("%s failed", at)
	}
	return nil
}

func (f *failing) open(o perfbuf.Options) (*perfbuf.Reader, error) {
	if err := f.fail("open"); err != nil {
		return nil, err
	}
	return f.simulation.open(o)
}

func (f *failing) attach() error {
	if err := f.fail("attach"); err != nil {
		return err
	}
	return f.simulation.attach()
}

func (f *failing) detach() error {
	if err := f.fail("detach"); err != nil {
		return err
	}
	return f.simulation.detach()
}

func (f *failing) close() {
	f.closed = true
	f.simulation.close()
}

func TestSourceFails(t *testing.T) {
	for _, at := range []string{"open", "attach", "detach"} {
		src := &failing{newSimulation(2, 1), at, false}
		_, err := follow(t.Context(), config{ringSize: 4096, mode: exact, simulate: true, count: 5}, src, jsonLines{}, io.Discard)
		require.EqualError(t, err, at+" failed")
		require.True(t, src.closed)
	}
}

// stuck has a program that was running when it was detached, and then outputs what is older than all
// that other CPUs did meanwhile.
type stuck struct{ *simulation }

func (s stuck) attach() error {
	p := s.kernel.Begin(0)
	p.Prepare(lifecycle.Encode(by(task{pid: 1, tid: 1, comm: "stuck"}, lifecycle.Exec)))
	_ = s.kernel.Output(1, lifecycle.Encode(by(task{pid: 2, tid: 2, comm: "other"}, lifecycle.Exec)))
	time.AfterFunc(time.Second, func() {
		_ = p.Reserve()
		p.Copy()
		p.Publish()
		p.End()
	})
	return nil
}

func TestDrainAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out bytes.Buffer
		src := stuck{newSimulation(2, 1)}
		_, err := follow(ctx, config{ringSize: 4096, mode: exact, simulate: true}, src, jsonLines{}, &out)
		require.NoError(t, err)
		require.Regexp(t, `(?s)^[^\n]*"comm":"stuck".*\n[^\n]*"comm":"other".*\n{"summary":.*"outputs":2,"samples":2,"unread":0,`, out.String())
	})
}
