package perfbuf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

func TestKindStrings(t *testing.T) {
	require.Equal(t, "none sample lost corrupt flushed Kind(9)", fmt.Sprint(Kind(0), " ", KindSample, " ", KindLost, " ", KindCorrupt, " ", KindFlushed, " ", Kind(9)))
}

// Every way to the payload of records that wrap, at every offset.
func TestPayloadOfWrappingRecords(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			for before := uint64(0); before <= 88; before += 8 {
				k := newFakeAt(t, 1, fakeRingSize-before, Options{})
				src := source(k)
				want := ringtest.Payload(7, 60)
				// A record of 80 bytes, of which 60 are payload
				require.NoError(t, k.w[0].Output(5, want))
				n := 0
				require.NoError(t, src.ForEach(func(ev Event) error {
					n++
					require.Equal(t, want, ev.Bytes()[:60])
					require.Equal(t, want, ev.Record().Data[:60])
					require.Len(t, ev.Record().Data, len(ev.Bytes()))
					require.Equal(t, raw.Poison || before > 0 && before < 80, k.all()[0].in().Raw.View() != ev.ev.View, "no copy where none is needed")
					return nil
				}))
				require.Equal(t, 1, n)
			}
		})
	}
}

// A slice handed out lets nobody append into the ring behind it.
func TestSlicesEndWhereThePayloadEnds(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.output(0, 1, 2)
	require.NoError(t, k.unordered().ForEach(func(ev Event) error {
		_ = append(ev.Bytes(), 0xFF, 0xFF, 0xFF, 0xFF)
		id(t, ev)
		return nil
	}))
	require.Equal(t, uint64(2), k.Stats().Rings[0].Samples)
}

func TestLossIsAnEventOfItsOwn(t *testing.T) {
	eachSource(t, 1, func(t *testing.T, k *fake, src *Stream) {
		n := uint64(k.fill(0, 100)) // and one lost
		require.Error(t, k.w[0].Output(900, make([]byte, 12)))
		require.Equal(t, seq(100, 99+n), ids(t, src))
		k.output(0, 1000)
		var recs []Record
		require.NoError(t, src.ForEach(func(ev Event) error {
			recs = append(recs, unsourced(ev))
			if ev.Kind() == KindLost {
				require.Equal(t, uint64(2), ev.Lost())
				require.Equal(t, 99+n, ev.LostAfter())
				require.Zero(t, len(ev.Bytes()))
				require.Empty(t, ev.Bytes())
			} else {
				require.Zero(t, ev.Lost())
				require.Zero(t, ev.LostAfter())
			}
			require.NoError(t, ev.Err())
			require.Equal(t, firstCPU, ev.CPU())
			return nil
		}))
		require.Len(t, recs, 2)
		require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Time: 1000, Lost: 2, LostAfter: 99 + n}, recs[0])
		require.Equal(t, KindSample, recs[1].Kind)
		require.Equal(t, uint64(1000), recs[1].Time)
		s := k.Stats().Rings[0]
		require.Equal(t, []uint64{n + 1, 2, 1}, []uint64{s.Samples, s.Lost, s.LostRecords})
	})
}

func TestWhatIsNotDelivered(t *testing.T) {
	eachSource(t, 1, func(t *testing.T, k *fake, src *Stream) {
		k.w[0].Put(ringtest.TypeThrottle, make([]byte, 24))
		k.output(0, 1)
		k.w[0].Put(ringtest.TypeLost, make([]byte, 24)) // of nothing
		k.output(0, 2)
		k.w[0].Put(77, nil)
		require.Equal(t, []uint64{1, 2}, ids(t, src))
		require.Equal(t, k.w[0].Head(), k.w[0].Tail())
		s := k.Stats().Rings[0]
		require.Equal(t, []uint64{2, 2, 0, 0}, []uint64{s.Samples, s.Unknown, s.LostRecords, s.Lost})
		require.Equal(t, k.w[0].Head(), s.Bytes)
	})
}

func TestCorruptMemoryIsAnEventAndReadingGoesOn(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFakeAt(t, 1, 1<<32-64, Options{})
			src := source(k)
			k.output(0, 5)
			k.w[0].PutHeader(ringtest.TypeSample, 0, 104)
			var got []Kind
			require.NoError(t, src.ForEach(func(ev Event) error {
				if got = append(got, ev.Kind()); ev.Kind() != KindCorrupt {
					require.NoError(t, ev.Err())
					return nil
				}
				var corrupt *CorruptError
				require.True(t, errors.As(ev.Err(), &corrupt))
				require.Equal(t, CorruptError{CPU: firstCPU, Offset: 1<<32 - 32, Skipped: 104, Reason: "header.size is 0"}, *corrupt)
				require.ErrorContains(t, ev.Err(), "CPU 10 at offset 4294967264: header.size is 0; skipped 104 bytes")
				require.Equal(t, Record{Kind: KindCorrupt, CPU: firstCPU, Time: 5, Err: corrupt}, unsourced(ev))
				require.Empty(t, ev.Bytes())
				require.Zero(t, len(ev.Bytes()))
				require.Zero(t, ev.Lost())
				return nil
			}))
			require.Equal(t, []Kind{KindSample, KindCorrupt}, got)
			k.output(0, 6)
			require.Equal(t, []uint64{6}, ids(t, src))
			require.Equal(t, uint64(1), k.Stats().Rings[0].Corrupt)
		})
	}
}

// Without times, a loss has no bounds.
func TestNoTime(t *testing.T) {
	k := newFake(t, 1, Options{NoTime: true})
	for k.w[0].Output(9, ringtest.Payload(1, 12)) == nil {
	}
	require.NoError(t, k.unordered().ForEach(func(ev Event) error { require.Zero(t, ev.Time()); return nil }))
	k.output(0, 2)
	var recs []Record
	require.NoError(t, k.unordered().ForEach(func(ev Event) error { recs = append(recs, unsourced(ev)); return nil }))
	require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Lost: 1}, recs[0])
	require.Zero(t, recs[1].Time)
	_, err := k.Stream(StreamOptions{})
	require.ErrorContains(t, err, "NoTime")
	k.release()
	require.NoError(t, k.ring(0).ForEach(never), "the refused stream holds nothing")
}

// A Record is the caller's: it outlives the ring's memory.
func TestRecordIsACopy(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.output(0, 1)
	var rec Record
	require.NoError(t, k.unordered().ForEach(func(ev Event) error { rec = ev.Record(); return nil }))
	clear(k.w[0].Data())
	got, err := ringtest.Check(rec.Data)
	require.NoError(t, err)
	require.Equal(t, uint64(1), got)
	require.Equal(t, uint64(1), binary.NativeEndian.Uint64(rec.Data))
}

// unsourced is a copy of an event that is compared with what no reader has made.
func unsourced(ev Event) Record {
	rec := ev.Record()
	rec.Source = ""
	return rec
}

// logged is what slog's text handler makes of a value.
func logged(v any) string {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key != "ev" {
			return slog.Attr{}
		}
		return a
	}})).Info("", "ev", v)
	return string(bytes.TrimSpace(b.Bytes()))
}

// Each kind of event, as it is printed and as its Record is logged.
func TestEventsInLogs(t *testing.T) {
	const at = uint64(3600 * time.Second)
	k := newFake(t, 1, Options{})
	n := uint64(k.fill(0, at))
	var lines []string
	show := func(ev Event) error {
		lines = append(lines, ev.String(), logged(ev.Record()))
		require.Equal(t, ev.String(), fmt.Sprint(ev))
		return nil
	}
	last := 0
	require.NoError(t, k.unordered().ForEach(func(ev Event) error { last++; return nil }))
	require.Equal(t, int(n), last)
	require.NoError(t, k.w[0].Output(at+uint64(time.Second)+5, ringtest.Payload(1, 12)))
	require.NoError(t, k.unordered().ForEach(show))
	k.w[0].PutHeader(ringtest.TypeSample, 0, 104)
	require.NoError(t, k.unordered().Flush())
	k.clock.Store(at)
	require.NoError(t, k.unordered().ForEach(show))
	after, damage := at+n-1, fmt.Sprintf("perfbuf: corrupt ring of CPU 10 at offset %d: header.size is 0; skipped 104 bytes (outputs of 65509 bytes or more do this: output less at once)", k.w[0].Head()-104)
	require.Equal(t, []string{
		fmt.Sprintf("lost cpu=10 time=3601.000000005s lost=1 after=3600.%09ds", n-1),
		fmt.Sprintf("ev.kind=lost ev.cpu=10 ev.time=3601000000005 ev.lost=1 ev.after=%d", after),
		"sample cpu=10 time=3601.000000005s len=12",
		"ev.kind=sample ev.cpu=10 ev.time=3601000000005 ev.len=12",
		fmt.Sprintf("corrupt cpu=10 time=3601.000000005s err=%q", damage),
		fmt.Sprintf("ev.kind=corrupt ev.cpu=10 ev.time=3601000000005 ev.err=%q", damage),
		"flushed time=1099.511627776s",
		"ev.kind=flushed ev.cpu=-1 ev.time=1099511627776",
	}, lines)
}

func TestLateEventsInLogs(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.stream()
	k.output(0, 2e9)
	ids(t, s)
	k.output(1, 1e9)
	var line, log string
	require.NoError(t, s.ForEach(func(ev Event) error { line, log = ev.String(), logged(ev.Record()); return nil }))
	require.Equal(t, "sample cpu=11 time=1.000000000s len=12 late", line)
	require.Equal(t, "ev.kind=sample ev.cpu=11 ev.time=1000000000 ev.len=12 ev.late=true", log)
}

// Events without a time, and the zero Event, can be printed too.
func TestZeroValuesInLogs(t *testing.T) {
	require.Equal(t, "none", Event{}.String())
	require.Equal(t, "ev.kind=none ev.cpu=0 ev.time=0", logged(Record{}))
	require.Equal(t, "ev.kind=none ev.cpu=0 ev.time=0", logged(Event{}.Record()))
	require.Equal(t, "ev.kind=sample ev.cpu=0 ev.time=0 ev.len=0", logged(Record{Kind: KindSample}))
	require.Equal(t, "ev.kind=corrupt ev.cpu=0 ev.time=0 ev.err=<nil>", logged(Record{Kind: KindCorrupt}))
	k := newFake(t, 1, Options{NoTime: true})
	k.fill(0, 1)
	ids(t, k.unordered())
	k.output(0, 2)
	var lines []string
	require.NoError(t, k.unordered().ForEach(func(ev Event) error { lines = append(lines, ev.String()); return nil }))
	require.Equal(t, []string{"lost cpu=10 lost=1", "sample cpu=10 len=12"}, lines)
}

// The payload stays out of logs, in JSON as well.
func TestPayloadsAreNotLogged(t *testing.T) {
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("", "ev", Record{Kind: KindSample, CPU: 3, Time: 1<<64 - 1, Data: []byte("secret")})
	require.NotContains(t, b.String(), "secret")
	var got struct{ Ev map[string]any }
	require.NoError(t, json.Unmarshal(b.Bytes(), &got))
	require.Equal(t, map[string]any{"kind": "sample", "cpu": 3.0, "time": float64(1<<64 - 1), "len": 6.0}, got.Ev)
}

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
		r.in().Raw.SetFields(4, -1)
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

// A source none of whose first samples has a time that a monotonic clock shows has another clock's,
// or the offset is wrong. The stream says so, once, and goes on.
func TestForeignTimes(t *testing.T) {
	const now, realtime = 1 << 40, 1_700_000_000_000_000_000
	for name, c := range map[string]struct {
		first []uint64 // times of the first samples
		last  []uint64 // of those in a second pass
		fails int      // which pass fails
	}{
		"from the first pass on": {repeat(realtime, 16), nil, 1},
		"from the second on":     {repeat(realtime, 15), repeat(realtime, 1), 2},
		"few":                    {repeat(realtime, 15), nil, 0},
		"some are good":          {append(repeat(realtime, 40), now), repeat(realtime, 40), 0},
		"later":                  {[]uint64{now}, repeat(realtime, 40), 0},
		"all are good":           {repeat(now, 40), repeat(now, 40), 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 2, Options{NoTime: true})
			k.clock.Store(now)
			s := k.byPayload(StreamOptions{Order: Slack(0)})
			n := 0
			for pass, times := range [][]uint64{c.first, c.last} {
				for i, at := range times {
					k.outputAt(i%2, 1, at)
				}
				err := s.ForEach(func(Event) error { n++; return nil })
				if pass+1 != c.fails {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, "more than a second in the future")
				require.NoError(t, s.ForEach(func(Event) error { n++; return nil }), "it is said once")
			}
			require.Equal(t, len(c.first)+len(c.last), n, "nothing is lost")
		})
	}
}

// Payloads that are too short, which a program may well output now and then, have the kernel's
// time. Without it nothing has an order.
func TestShortPayloads(t *testing.T) {
	for _, o := range []Options{{}, {NoTime: true}} {
		k := newFake(t, 1, o)
		k.clock.Store(uint64(time.Second))
		s := k.byPayload(StreamOptions{Order: Slack(0)})
		for range 40 {
			require.NoError(t, k.w[0].Output(1, []byte{1, 2, 3, 4}))
		}
		if o.NoTime {
			require.ErrorContains(t, s.ForEach(func(Event) error { return nil }), "its first 40 samples are too short for a time")
		}
		require.Len(t, copies(t, s), 40)
	}
}

func repeat(time uint64, n int) (times []uint64) {
	for range n {
		times = append(times, time)
	}
	return times
}
