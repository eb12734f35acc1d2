package perfbuf

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timedPayload is at the stream's PayloadTime(4).
func timedPayload(time uint64) []byte {
	return binary.NativeEndian.AppendUint64([]byte{1, 2, 3, 4}, time)
}

// outputAt writes samples at the kernel's time kt whose payloads hold other times.
func (k *fake) outputAt(ring int, kt uint64, times ...uint64) {
	k.t.Helper()
	for i, time := range times {
		require.NoError(k.t, k.w[ring].Output(kt+uint64(i), timedPayload(time)))
	}
}

func (k *fake) byPayload(o StreamOptions) *Stream {
	k.t.Helper()
	k.opts.Time = PayloadTime(4)
	for _, r := range k.all() {
		r.raw.SetFields(4, -1)
	}
	s, err := k.Stream(o)
	require.NoError(k.t, err)
	return s
}

func copies(t *testing.T, src *Stream) (recs []Record) {
	t.Helper()
	require.NoError(t, src.ForEach(func(ev Event) error { recs = append(recs, unsourced(ev)); return nil }))
	return recs
}

func timesOf(recs []Record) (times []uint64) {
	for _, r := range recs {
		times = append(times, r.Time)
	}
	return times
}

// The order is that of the payloads' times, over rings and within one, and Event.Time is that time,
// with the kernel's times and without.
func TestPayloadTimeOrders(t *testing.T) {
	for name, opts := range map[string]Options{"with the kernel's times": {}, "without": {NoTime: true}} {
		t.Run(name, func(t *testing.T) {
			k := newFakeAt(t, 2, fakeRingSize-3*recordSize-16, opts) // records wrap, times too
			s := k.byPayload(StreamOptions{Order: Slack(0)})
			k.outputAt(0, 1000, 50, 20, 60)
			k.outputAt(1, 900, 30, 40, 10, 10)
			recs := copies(t, s)
			require.Equal(t, []uint64{10, 10, 20, 30, 40, 50, 60}, timesOf(recs))
			for _, r := range recs {
				require.Equal(t, timedPayload(r.Time), r.Data[:12])
				require.False(t, r.Late)
			}
			st := k.Stats()
			require.EqualValues(t, 3, st.Inversions)
			require.Zero(t, st.Untimed)

			k.outputAt(1, 2000, 55, 65)
			recs = copies(t, s)
			require.Equal(t, []uint64{55, 65}, timesOf(recs))
			require.Equal(t, []bool{true, false}, []bool{recs[0].Late, recs[1].Late})
			require.Equal(t, 5*time.Nanosecond, k.Stats().MaxLateness)
		})
	}
}

// What is due is decided by the payload's time as well.
func TestPayloadTimeIsWhatWaits(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.clock.Store(1000)
	s := k.byPayload(StreamOptions{Order: Slack(100)})
	k.outputAt(0, 1, 890, 950)
	require.Equal(t, []uint64{890}, timesOf(copies(t, s)))
	k.clock.Store(1050)
	require.Equal(t, []uint64{950}, timesOf(copies(t, s)))
}

// A sample without a time that can be believed has the kernel's, or else its predecessor's.
func TestPayloadWithoutATime(t *testing.T) {
	const now = 1 << 40
	future := now + uint64(time.Second) + 1
	for name, c := range map[string]struct {
		opts Options
		want []uint64
	}{
		"with the kernel's times": {Options{}, []uint64{100, 110, 120, 300}},
		"without":                 {Options{NoTime: true}, []uint64{100, 100, 100, 300}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, c.opts)
			s := k.byPayload(StreamOptions{Order: Slack(0)})
			k.outputAt(0, 1, 100)
			require.NoError(t, k.w[0].Output(110, []byte{1, 2, 3, 4}))
			k.outputAt(0, 120, future)
			k.outputAt(0, 130, 300)
			recs := copies(t, s)
			require.Equal(t, c.want, timesOf(recs))
			require.Equal(t, timedPayload(future), recs[2].Data[:12], "it keeps what it says")
			require.EqualValues(t, 2, k.Stats().Untimed)
			require.Zero(t, k.Stats().Total().Corrupt)
			k.outputAt(0, 140, future-1) // not too far ahead
			require.NoError(t, s.ForEachPending(func(ev Event) error { require.Equal(t, future-1, ev.Time()); return nil }))
			require.EqualValues(t, 2, k.Stats().Untimed)
		})
	}
}

// A loss stands just before the sample that reported it, wherever that sample's time puts it.
func TestLossWithPayloadTime(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.byPayload(StreamOptions{Order: Slack(0)})
	k.outputAt(0, 1, 1)
	n := uint64(k.fill(0, 500)) // their ids lie where no time is looked for
	before := copies(t, s)
	require.Len(t, before, 1+int(n))
	k.outputAt(1, 1, 1<<39, 1<<39+20)
	k.outputAt(0, 7, 1<<39+10)
	recs := copies(t, s)
	require.Len(t, recs, 4)
	require.Equal(t, []uint64{1 << 39, 1<<39 + 10, 1<<39 + 10, 1<<39 + 20}, timesOf(recs))
	require.Equal(t, []Kind{KindSample, KindLost, KindSample, KindSample}, []Kind{recs[0].Kind, recs[1].Kind, recs[2].Kind, recs[3].Kind})
	require.EqualValues(t, 1, recs[1].Lost)
	require.Less(t, recs[1].LostAfter, recs[1].Time)
}

// Exact mode goes by the payload's time too.
func TestPayloadTimeInExactMode(t *testing.T) {
	k := newFake(t, 2, Options{NoTime: true, Time: PayloadTime(4)})
	s, b := k.stepped(5_000_000, StreamOptions{})
	k.outputAt(0, 0, 4_000_000, 5_000_000)
	k.outputAt(1, 0, 3_000_000)
	require.Empty(t, copies(t, s))
	require.NoError(t, b.Round())
	require.Equal(t, []uint64{3_000_000, 4_000_000}, timesOf(copies(t, s)))
	k.clock.Store(6_000_000)
	require.Empty(t, copies(t, s))
	require.True(t, b.Requested())
	require.NoError(t, b.Round())
	require.Equal(t, []uint64{5_000_000}, timesOf(copies(t, s)))
}
