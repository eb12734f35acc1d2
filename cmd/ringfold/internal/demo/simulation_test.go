package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

// What is printed of a simulation is what its kernel has counted. In a bubble it takes no time.
func TestSimulation(t *testing.T) {
	for name, c := range map[string]config{
		"exact":       {mode: exact, ringSize: 4 << 10},
		"slack":       {mode: slack, slack: time.Millisecond, ringSize: 4 << 10},
		"large rings": {mode: exact},
		"limit":       {mode: exact, count: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.simulate, c.duration = true, 5*time.Second
				host := lifecycle.NewSimulation(lifecycle.SimulationOptions{CPUs: 4, Rate: 400})
				s := follows(t, host, c)
				require.True(t, s.summary.Simulated)
				if c.count > 0 {
					require.EqualValues(t, c.count, s.summary.Events)
					return // what runs at the end is in no count
				}
				written, lost := host.Counts()
				require.Equal(t, []uint64{written, lost}, []uint64{s.summary.Samples, s.summary.Lost})
				require.Equal(t, c.ringSize > 0, s.losses > 0)
				require.Len(t, s.perCPU, 4)
				require.True(t, s.has("exec", "gcc", 0))
				require.True(t, s.has("exit", "gcc", 1))
			})
		})
	}
}

// made is a source that can fail, with programs of a test.
type made struct {
	*perfbuftest.Kernel
	begin          func()
	attach, detach error
	closed         bool
}

func (m *made) Attach() error {
	if m.begin != nil {
		m.begin()
	}
	return m.attach
}

func (m *made) Detach() error { return m.detach }

func (m *made) Close() { m.closed = true }

func TestSourceFails(t *testing.T) {
	failed := errors.New("failed")
	for _, src := range []*made{{attach: failed}, {detach: failed}} {
		src.Kernel = perfbuftest.New(perfbuftest.Options{RealTime: true})
		r, err := src.Open(perfbuf.Options{})
		require.NoError(t, err)
		_, err = follow(t.Context(), config{mode: exact, simulate: true, duration: 1}, src, r, io.Discard)
		require.Equal(t, failed, err)
		require.True(t, src.closed)
	}
}

// A program that was running when it was detached outputs what is older than all that other CPUs did meanwhile.
func TestDrainAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &made{Kernel: perfbuftest.New(perfbuftest.Options{RealTime: true})}
		src.begin = func() {
			p := src.Begin(0)
			p.Prepare(lifecycle.Encode(lifecycle.Event{Kind: lifecycle.Exec, PID: 1}))
			require.NoError(t, src.Output(1, lifecycle.Encode(lifecycle.Event{Kind: lifecycle.Exec, PID: 2})))
			time.AfterFunc(time.Second, func() {
				_ = p.Reserve()
				p.Copy()
				p.Publish()
				p.End()
			})
		}
		r, err := src.Open(perfbuf.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out bytes.Buffer
		_, err = follow(ctx, config{Output: cli.Output{Format: cli.JSON}, mode: exact, simulate: true}, src, r, &out)
		require.NoError(t, err)
		require.Regexp(t, `(?s)^[^\n]*"pid":1,.*\n[^\n]*"pid":2,.*\n{"summary":.*"outputs":2,"samples":2,"unread":0,`, out.String())
	})
}
