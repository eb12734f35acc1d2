package perfbuf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

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
					require.Len(t, ev.Bytes(), ev.Len())
					require.Len(t, ev.Record().Data, ev.Len())
					require.Equal(t, raw.Poison || before > 0 && before < 80, ev.Copied(k.Reader), "no copy where none is needed")
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
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			src := source(k)
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
					require.Zero(t, ev.Len())
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
}

func TestWhatIsNotDelivered(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			src := source(k)
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
				require.Zero(t, ev.Len())
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
	require.NoError(t, StreamOf(t, k.all()[0]).ForEach(never), "the refused stream holds nothing")
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
	rec.Source = nil
	return rec
}
