package perfdata_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// ms is one of the times that tests speak of.
const ms = 1e6

// sender is a host that records, and a live recording of it elsewhere.
type sender struct {
	t      *testing.T
	k      *perfbuftest.Kernel
	stream *perfbuf.Stream
	rec    *perfdata.Recorder
	live   *perfdata.Live
	reader *perfbuf.Reader
	round  perfdata.Round
	sent   bytes.Buffer
	base   uint64 // when its kernel's clock began
}

func newSender(t *testing.T, name string) *sender {
	t.Helper()
	s := &sender{t: t, live: perfdata.NewLive(name)}
	var r *perfbuf.Reader
	s.k, r = simulated(t, perfbuf.Options{})
	s.stream = unordered(t, r)
	s.base = s.k.Now()
	s.offset(0)
	var err error
	s.rec, err = perfdata.NewRecorder(s, perfdata.Options{Events: []perfdata.EventInfo{{Name: "events"}}})
	require.NoError(t, err)
	require.NoError(t, s.live.Head(s.sent.Bytes()))
	s.sent.Reset()
	s.reader, err = s.live.Open("events", perfbuf.Options{Name: name})
	require.NoError(t, err)
	t.Cleanup(func() { s.reader.Close() })
	return s
}

func (s *sender) Write(b []byte) (int, error) { return s.sent.Write(b) }

func (s *sender) Round(through uint64) error {
	s.round.Through = max(s.round.Through, through)
	return nil
}

// offset has the wall's clock be so far ahead.
func (s *sender) offset(d int64) { s.round.Offset = d*ms - int64(s.base) }

// output outputs n at a time, which goes on from the earlier ones.
func (s *sender) output(cpu int, at, n uint64) {
	s.t.Helper()
	s.k.Advance(time.Duration(s.base + at*ms - s.k.Now()))
	require.NoError(s.t, s.k.Output(cpu, binary.NativeEndian.AppendUint64(nil, n)))
	require.NoError(s.t, s.stream.ForEach(s.rec.Record))
}

// send sends what was output, and that nothing earlier than a time will come.
func (s *sender) send(through uint64) {
	s.t.Helper()
	require.NoError(s.t, s.rec.Flush())
	s.round.Through = max(s.round.Through, s.base+through*ms)
	require.NoError(s.t, s.live.Feed(bytes.Clone(s.sent.Bytes()), s.round))
	s.sent.Reset()
}

// lives is a stream of live recordings.
func lives(t *testing.T, senders ...*sender) *perfbuf.Stream {
	t.Helper()
	var readers []*perfbuf.Reader
	for _, s := range senders {
		readers = append(readers, s.reader)
	}
	stream, err := perfbuf.Merge(perfbuf.StreamOptions{}, readers...)
	require.NoError(t, err)
	t.Cleanup(func() { stream.Close() })
	return stream
}

// came reads what can be delivered now.
func came(t *testing.T, stream *perfbuf.Stream) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of a bubble
	defer cancel()
	err := stream.Run(ctx, func(ev perfbuf.Event) error {
		all = append(all, text(ev))
		return nil
	})
	if err != io.EOF {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	return all
}

func text(ev perfbuf.Event) (s string) {
	switch ev.Kind() {
	case perfbuf.KindSample:
		s = fmt.Sprintf("%s%d", ev.Source(), binary.NativeEndian.Uint64(ev.Bytes()))
	default:
		s = fmt.Sprintf("%s: %s %d after %d", ev.Source(), ev.Reason(), ev.Lost(), ev.LostAfter()/ms)
	}
	if ev.Late() {
		s += " late"
	}
	return s
}

// Events of live recordings come in order of the wall's clock, once none of them can get an older
// one. They have their CPUs, and the errors of their hosts' clocks.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSender(t, "a"), newSender(t, "b")
		a.offset(1000)
		b.offset(2000)
		a.round.Error, b.round.Error = 7, 8
		stream := lives(t, a, b)
		a.output(0, 1500, 1) // 2500
		a.output(1, 1700, 2) // 2700
		a.send(1800)
		require.Empty(t, came(t, stream), "nothing is known of b")
		b.output(0, 550, 1) // 2550
		b.send(600)
		require.Equal(t, []string{"a1", "b1"}, came(t, stream))
		b.send(710)
		require.Equal(t, []string{"a2"}, came(t, stream), "a watermark alone")
		at, hold := b.live.Through()
		require.EqualValues(t, 2710*ms, at)
		require.True(t, hold)
		require.EqualValues(t, 7, a.live.Error(2600*ms))
		require.EqualValues(t, uint64(math.MaxUint64), a.live.Error(1))

		// Nobody waits for b, which falls behind, and then catches up.
		b.live.Hold(false)
		a.output(0, 2000, 3) // 3000
		a.send(2000)
		a.send(2001)
		require.Equal(t, []string{"a3"}, came(t, stream))
		b.live.Hold(true)
		b.output(0, 900, 2) // 2900
		b.send(900)
		require.Equal(t, []string{"b2 late"}, came(t, stream))
		a.output(0, 2100, 4)
		a.send(2200)
		require.Equal(t, []string{"a4"}, came(t, stream), "b is still behind")
		b.send(1210)
		a.output(0, 2300, 5)
		a.send(2300)
		require.Empty(t, came(t, stream), "b has caught up")
		n, _, _ := a.live.Backlog()
		require.Equal(t, 1, n)

		require.NoError(t, b.live.Gap(perfdata.Gap{Reason: "gone", Count: 3, After: 3150 * ms}, time.Time{}))
		b.live.End()
		a.live.End()
		require.Equal(t, []string{"b: gone 3 after 3150", "a5"}, came(t, stream))
		require.Equal(t, io.EOF, stream.Run(t.Context(), func(perfbuf.Event) error { return nil }))
	})
}

// While nobody is waited for, all that has come is delivered, and time stands still: what comes
// then is not late.
func TestLiveIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSender(t, "a"), newSender(t, "b")
		stream := lives(t, a, b)
		b.live.Hold(false)
		for at := uint64(1000); at < 5000; at += 1000 {
			a.live.Hold(true)
			a.output(0, at, at)
			a.send(at)
			a.live.Hold(false)
			require.Equal(t, []string{fmt.Sprint("a", at)}, came(t, stream))
			require.Empty(t, came(t, stream))
		}
		b.output(0, 4500, 1)
		b.send(4500)
		require.Equal(t, []string{"b1"}, came(t, stream))
	})
}

// After a time in which nobody was waited for, recordings are waited for again.
func TestLiveHeldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSender(t, "a"), newSender(t, "b")
		stream := lives(t, a, b)
		a.live.Hold(false)
		b.live.Hold(false)
		require.Empty(t, came(t, stream))
		a.output(0, 10, 1)
		a.send(20)
		require.Equal(t, []string{"a1"}, came(t, stream))
		a.live.Hold(true)
		b.live.Hold(true)
		a.output(0, 100, 2)
		a.send(150)
		b.send(5)
		require.Equal(t, []string{"a2"}, came(t, stream), "b is known to be older than what was delivered")
		a.output(0, 200, 3)
		a.send(250)
		b.send(160)
		require.Empty(t, came(t, stream), "b has caught up")
		b.output(0, 190, 1)
		b.send(260)
		require.Equal(t, []string{"b1", "a3"}, came(t, stream))
	})
}

// A host's last event goes on though its round says no more than its time, and does not keep the
// stream busy. The host is waited for from there on.
func TestLiveLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSender(t, "a"), newSender(t, "b")
		stream := lives(t, a, b)
		a.output(0, 10, 1)
		a.send(5)
		b.send(10)
		require.Empty(t, came(t, stream), "b may have one, too")
		b.output(0, 20, 1)
		b.send(15)
		require.Equal(t, []string{"a1"}, came(t, stream))
		a.output(0, 15, 2)
		a.send(15)
		require.Equal(t, []string{"a2"}, came(t, stream))
		_, hold := a.live.Through()
		require.True(t, hold)
		b.live.Feed(nil, perfdata.Round{Through: b.base + 11*ms, Offset: b.round.Offset})
		a.live.Hold(false)
		require.Equal(t, []string{"b1"}, came(t, stream))
		_, hold = b.live.Through()
		require.True(t, hold, "what was fed does not go back")
	})
}

// A clock that is set back does not reorder its host's events: they are moved, and are as wrong.
// One that is far ahead is not believed. A late event is not moved.
func TestLiveClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSender(t, "a")
		stream := lives(t, a)
		times := func() (all []uint64) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			stream.Run(ctx, func(ev perfbuf.Event) error { all = append(all, ev.Time()/ms); return nil })
			return all
		}
		a.offset(1000)
		a.round.Error = 5
		a.output(0, 100, 1)
		a.send(200)
		a.offset(500)
		a.output(0, 300, 2)
		a.output(0, 900, 3)
		a.send(1000)
		require.Equal(t, []uint64{1100, 1200, 1400}, times())
		require.EqualValues(t, 5+400*ms, a.live.Error(1200*ms))
		require.EqualValues(t, 5, a.live.Error(1400*ms))
		a.round.Latest = 2000 * ms
		a.output(0, 1600, 4)
		a.send(1700)
		a.send(1700)
		a.live.Hold(false)
		require.Equal(t, []uint64{2000}, times())
		require.EqualValues(t, 5+100*ms, a.live.Error(2000*ms))
	})
}

// What is damaged is refused as a whole, and so are other events than before.
func TestLiveRefuses(t *testing.T) {
	a := newSender(t, "a")
	a.output(0, 100, 1)
	require.NoError(t, a.rec.Flush())
	good := bytes.Clone(a.sent.Bytes())
	require.NoError(t, a.live.Feed(good, a.round))
	require.Equal(t, a.sent.Bytes(), good, "it is only read")
	for cut := 1; cut < len(good); cut++ {
		require.ErrorContains(t, a.live.Feed(good[:len(good)-cut], a.round), "perfdata: a: at offset 0")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		b := append(bytes.Clone(good), good...)
		for range 1 + rnd.IntN(4) {
			b[rnd.IntN(len(b))] ^= byte(1 + rnd.IntN(255))
		}
		_ = a.live.Feed(b, a.round)
	}
	require.Error(t, a.live.Head([]byte("no head")))
	other, err := perfdata.NewRecorder(io.Discard, perfdata.Options{Events: []perfdata.EventInfo{{Name: "events", BTF: []byte("x")}}})
	require.NoError(t, err)
	require.ErrorIs(t, a.live.Head(other.Head()), perfdata.ErrOtherEvents)
	require.NoError(t, a.live.Head(a.rec.Head()))
	require.NoError(t, perfdata.NewLive("b").Head(other.Head()))
	require.Error(t, perfdata.NewLive("b").Feed(good, a.round))
	_, err = a.live.Open("none", perfbuf.Options{})
	require.ErrorContains(t, err, "no event can be replayed")
}
