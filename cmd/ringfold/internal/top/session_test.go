package top

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// reading runs a session, and returns what ends it and returns the last counts.
func reading(t *testing.T, s *session) (end func() snapshot) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.run(ctx) }()
	return func() snapshot {
		cancel()
		require.NoError(t, <-ended)
		last, err := s.finish()
		require.NoError(t, err)
		return last
	}
}

// In all modes, one after the other, with pauses in between, every event that got into a ring is delivered.
func TestSession(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	s, err := openOne(e.MapFD(), perfbuf.Options{}, source.Unordered, time.Millisecond)
	require.NoError(t, err)
	end := reading(t, s)

	const each = 50
	want := uint64(0)
	for range 3 * len(modes) {
		for _, cpu := range cpus {
			e.Emit(cpu, each, 64)
		}
		want += uint64(each * len(cpus))
		s.togglePause()
		require.True(t, s.snapshot().paused)
		e.Emit(cpus[0], 1, 64)
		require.ErrorIs(t, e.LastError(cpus[0]), syscall.ENOENT)
		s.togglePause()
		require.False(t, s.snapshot().paused)
		e.Emit(cpus[0], 1, 64)
		require.NoError(t, e.LastError(cpus[0]))
		want++
		for s.snapshot().stats.Total().Samples < want { // in this mode
		}
		s.changeMode()
		for _, cpu := range cpus { // while the mode is changing
			e.Emit(cpu, each, 64)
		}
		want += uint64(each * len(cpus))
	}
	require.Equal(t, source.Unordered, s.snapshot().mode)
	last := end()
	total := last.stats.Total()
	require.Equal(t, want, total.Samples)
	require.Zero(t, total.Dropped+total.Lost+last.stats.Late)
	require.Empty(t, last.problem)
	require.NotEmpty(t, last.stats.Barrier.Provider, "exact mode was among them")
	s.togglePause()
	require.Contains(t, s.snapshot().problem, "closed")
}

func TestSessionFails(t *testing.T) {
	e := kerneltest.Load(t)
	s, err := openOne(e.MapFD(), perfbuf.Options{}, source.Unordered, 0)
	require.NoError(t, err)
	require.NoError(t, s.readers()[0].Close())
	require.Error(t, s.run(t.Context()))

	_, err = openOne(e.ArrayFD(), perfbuf.Options{}, source.Unordered, 0)
	require.Error(t, err)
}

func TestFallBack(t *testing.T) {
	s := &session{mode: source.Exact, turn: func() {}}
	require.NoError(t, s.fallBack(source.Exact, errors.New("no grace")))
	m, _, problem := s.state()
	require.Equal(t, source.Unordered, m)
	require.Equal(t, "exact mode: no grace", problem)
	s.mode = source.Slack
	require.NoError(t, s.fallBack(source.Exact, errors.New("no grace")))
	m, _, _ = s.state()
	require.Equal(t, source.Slack, m, "chosen meanwhile")
}

// What a stream holds when the mode changes, as its time has not come, is delivered too.
func TestModeChangeKeepsWhatIsHeld(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	s, err := openOne(e.MapFD(), perfbuf.Options{RingBytes: 16 << 10}, source.Slack, time.Hour)
	require.NoError(t, err)
	end := reading(t, s)
	for s.snapshot().stats.SpilledBytes == 0 { // then it holds some
		e.Emit(cpus[0], 1, 64)
	}
	require.Zero(t, s.snapshot().stats.Total().Samples)
	s.changeMode()
	for total := s.snapshot().stats.Total(); total.Samples+total.Dropped == 0; total = s.snapshot().stats.Total() {
	}
	last := end()
	attempted, failed := e.Counts(cpus[0])
	require.Equal(t, attempted-failed, last.stats.Total().Samples)
	require.Zero(t, last.stats.Total().Dropped)
}

// openOne is a session of one perf event array.
func openOne(fd int, o perfbuf.Options, m source.Mode, slack time.Duration) (*session, error) {
	r, err := perfbuf.Open(fd, o)
	if err != nil {
		return nil, err
	}
	return sessionOf((&source.Flags{}).Own("events", r), m, slack), nil
}

func sessionOf(set *source.Set, m source.Mode, slack time.Duration) *session {
	return &session{set: set, picks: newPicks(), mode: m, slack: slack, began: time.Now(), turn: func() {}}
}

// A perf event array and a ring buffer are read in all modes, and each has its rows.
func TestSessionOfSeveralMaps(t *testing.T) {
	e, rings := kerneltest.Load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	array, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	ringbuf, err := perfbuf.OpenRingBuf(rings.MapFD(), perfbuf.Options{Time: perfbuf.PayloadTime(kerneltest.RingTimeAt)})
	require.NoError(t, err)
	set := (&source.Flags{}).Own("events", array)
	set.Sources = append(set.Sources, (&source.Flags{}).Own("shared", ringbuf).Sources...)
	s := sessionOf(set, source.Unordered, 0)
	end := reading(t, s)
	want := uint64(0)
	for range modes {
		e.Emit(0, 10, 64)
		rings.Emit(0, kerneltest.RingEmit{Count: 10, Size: 64})
		for want += 20; s.snapshot().stats.Total().Samples < want; {
		}
		s.togglePause()
		require.Contains(t, s.snapshot().problem, "ring buffer")
		require.True(t, s.snapshot().paused, "the other one is")
		s.togglePause()
		require.False(t, s.snapshot().paused)
		s.changeMode()
	}
	last := end()
	f := newFrame(s.began, snapshot{at: s.began}, last)
	samples := map[string]uint64{}
	for _, r := range f.Rings {
		samples[r.Map] += r.Delivered
	}
	require.Equal(t, map[string]uint64{"events (id 0)": want / 2, "shared (id 0)": want / 2}, samples)
	row := f.Rings[len(f.Rings)-1]
	require.Equal(t, "shared (id 0)", row.Map)
	require.Equal(t, 1<<16, row.Size)
	table := newTable(f, 100)
	require.Regexp(t, `^ all .* shared \(id 0\)$`, ansi.Strip(table.row(row)))
	require.Regexp(t, ` MAP$`, ansi.Strip(table.head()))
}
