package agent

import (
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

// scripted is a source on which happens what a test says, when it is attached: before anybody reads.
type scripted struct {
	*perfbuftest.Kernel
	attach func()
	early  uint64 // so many events do not count
}

func (s *scripted) Open() (*perfbuf.Reader, error) {
	return s.Kernel.Open(perfbuf.Options{RingBytes: 128 << 10})
}
func (s *scripted) Attach() error { s.attach(); return nil }
func (s *scripted) Detach() error { return nil }
func (s *scripted) Close()        {}
func (s *scripted) Decode(ev perfbuf.Event, e *wire.Event) error {
	if s.early > 0 {
		s.early--
		return source.ErrSkip
	}
	e.Kind, e.Cpu = wire.Event_EXEC, uint32(ev.CPU())
	return nil
}

// shipScript ships what is output on one CPU.
func shipScript(t *testing.T, early uint64, attach func(output func(size int) error)) (history, perfbuftest.Counts, Stats) {
	t.Helper()
	b := startBroker(t)
	makeStream(t, connect(t, b.URL()), 1)
	k := perfbuftest.New(perfbuftest.Options{RealTime: true})
	s := &scripted{Kernel: k, early: early, attach: func() { attach(func(size int) error { return k.Output(0, make([]byte, size)) }) }}
	stats := startAgent(t, Options{Source: s, Conn: connect(t, b.URL())}).end()
	return read(t, stored(t, b.URL())), k.Counts(0), stats
}

// Events that find a ring full are in the log by number, as a gap.
func TestRingFull(t *testing.T) {
	h, n, stats := shipScript(t, 0, func(output func(int) error) {
		for range 2000 {
			_ = output(200)
		}
	})
	require.Positive(t, n.Lost)
	require.Equal(t, n.Written, h.events)
	require.Equal(t, n.Lost, h.gaps[wire.Gap_RING_FULL])
	require.Equal(t, n.Lost, stats.Lost[wire.Gap_RING_FULL])
}

// Memory that cannot be read is a gap of unknown size.
func TestCorrupt(t *testing.T) {
	h, _, stats := shipScript(t, 0, func(output func(int) error) {
		require.NoError(t, output(100))
		require.NoError(t, output(65600))
	})
	require.Equal(t, 1, h.number[wire.Gap_CORRUPT])
	require.Zero(t, h.gaps[wire.Gap_CORRUPT])
	require.Equal(t, uint64(1), stats.Lost[wire.Gap_CORRUPT])
}

// What comes before the source is complete is not in the log, and no loss.
func TestSkipped(t *testing.T) {
	h, n, stats := shipScript(t, 3, func(output func(int) error) {
		for range 10 {
			require.NoError(t, output(100))
		}
	})
	require.Equal(t, uint64(10), n.Written)
	require.Equal(t, uint64(7), h.events)
	require.Equal(t, uint64(7), stats.Events)
	require.Empty(t, h.number)
}
