package merge_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// oneBuffer merges one ring buffer of this size, with times at the payloads' begin.
func oneBuffer(size, spill int) (*merge.Merger, *ringtest.RingBuf) {
	w := ringtest.NewRingBuf(size, 1<<32-64)
	r := w.Raw()
	r.SetFields(0, -1)
	return merge.New([]*raw.Ring{r}, merge.Options{Spill: spill}, func(int, uint64) {}), w
}

func reserve(t *testing.T, w *ringtest.RingBuf, time uint64, n int) ringtest.Record {
	h, err := w.Reserve(n)
	require.NoError(t, err)
	h.Write(0, binary.NativeEndian.AppendUint64(nil, time))
	return h
}

// What lies behind a busy record is delivered in its turn; the tail waits for the busy one.
func TestBehindABusyRecord(t *testing.T) {
	m, w := oneBuffer(1024, 0)
	busy := reserve(t, w, 20, 8)
	reserve(t, w, 10, 8).Commit(0)
	reserve(t, w, 5, 8).Discard(0)
	require.Equal(t, merge.Found{Discarded: 1}, m.Scan(0, w.Head(), forever, 0))
	require.Equal(t, []out{{0, raw.Sample, 10, false}}, drain(t, m, 15, 9))
	require.Equal(t, busy.Off, w.Tail())
	require.Equal(t, 1, m.Busy(0))
	reserve(t, w, 30, 8).Commit(0)
	require.Equal(t, merge.Found{}, m.Scan(0, w.Head(), forever, 0))
	busy.Commit(0)
	require.Equal(t, merge.Found{}, m.Scan(0, w.Head(), forever, 0), "it lies before the later one")
	require.Equal(t, []out{{0, raw.Sample, 20, false}, {0, raw.Sample, 30, false}}, drain(t, m, all, 9))
	require.Equal(t, w.Head(), w.Tail())
	reserve(t, w, 50, 8).Commit(0)
	behind := reserve(t, w, 40, 8)
	m.Scan(0, w.Head(), forever, 0)
	behind.Commit(0)
	require.Equal(t, merge.Found{Inversions: 1}, m.Scan(0, w.Head(), forever, 0))
}

// While a busy record keeps the tail, a round asks only now and then whether it can be moved.
func TestRoundsBehindABusyRecord(t *testing.T) {
	const n = 1000
	m, w := oneBuffer(1<<15, 0)
	reserve(t, w, 1, 8)
	for i := range uint64(n) {
		reserve(t, w, 2+i, 8).Commit(0)
	}
	m.Scan(0, w.Head(), forever, 0)
	m.Begin(all)
	evs, rings := make([]raw.Event, merge.BatchSize), make([]int, merge.BatchSize)
	batches, got := 0, 0
	for k := m.Batch(evs, rings); k > 0; k = m.Batch(evs, rings) {
		batches++
		got += k
	}
	m.End()
	require.Equal(t, n, got)
	require.LessOrEqual(t, batches, n/merge.BatchSize+8)
}

// Stamps are taken behind the reservation: what is not below the head yet, or is busy, is stamped later than a clock reading from before the scan that has not
// seen it.
func TestStampedUpTo(t *testing.T) {
	m, w := oneBuffer(1024, 0)
	require.Zero(t, m.StampedUpTo(0), "it was not looked at")
	scan := func(now uint64) uint64 {
		m.Scan(0, w.Head(), forever, now)
		return m.StampedUpTo(0)
	}
	early := reserve(t, w, 90, 8)
	require.Zero(t, scan(100), "nobody knows when the first was reserved")
	early.Commit(0)
	require.Equal(t, uint64(200), scan(200))
	require.Equal(t, uint64(300), scan(300), "with nothing new")
	first := reserve(t, w, 301, 8)
	require.Equal(t, uint64(300), scan(400))
	second := reserve(t, w, 401, 8)
	require.Equal(t, uint64(300), scan(500))
	require.Equal(t, uint64(300), scan(600))
	first.Commit(0)
	require.Equal(t, uint64(400), scan(700))
	second.Discard(0)
	require.Equal(t, uint64(800), scan(800))
	w.SetHead(w.Head() - 8)
	require.Equal(t, uint64(800), scan(900), "a head that went back says nothing")
}

// A busy record that has another length when it is committed is damage. One with a time that no clock can have shown, or with none, goes with
// those before it.
func TestBusyRecordsThatAreNotBelieved(t *testing.T) {
	m, w := oneBuffer(1024, 0)
	longer, shorter, future, empty := reserve(t, w, 10, 8), reserve(t, w, 10, 24), reserve(t, w, 1001, 8), reserve(t, w, 10, 0)
	reserve(t, w, 10, 8).Commit(0)
	m.Scan(0, w.Head(), 1000, 0)
	for h, length := range map[ringtest.Record]uint32{longer: 300, shorter: 8} {
		for _, at := range []uint64{h.Off & 1023, h.Off&1023 + 1024} {
			binary.NativeEndian.PutUint32(w.Data()[at:], length)
		}
	}
	future.Commit(0)
	empty.Commit(0)
	require.Equal(t, merge.Found{Keyless: 2, Bad: 2}, m.Scan(0, w.Head(), 1000, 0))
	require.Zero(t, m.Busy(0))
	reserve(t, w, 11, 8).Commit(0)
	m.Scan(0, w.Head(), 1000, 0)
	require.Equal(t, []out{
		{0, raw.Corrupt, 10, false}, {0, raw.Corrupt, 10, false}, {0, raw.Sample, 10, false}, {0, raw.Sample, 10, false}, {0, raw.Sample, 10, false},
		{0, raw.Sample, 11, false},
	}, drain(t, m, all, 9))
	require.Equal(t, w.Head(), w.Tail())
}

// A record larger than a block stays in the ring, and goes with what comes behind once it has been delivered.
func TestSpillOfLargeRecords(t *testing.T) {
	m, w := oneBuffer(512<<10, 10<<20)
	const block = 128 << 10
	small := func() { reserve(t, w, 50, 64).Commit(0) }
	small()
	big := reserve(t, w, 60, block+8)
	small()
	m.Scan(0, w.Head(), forever, 0)
	require.Equal(t, uint64(72), m.Spill(0), "up to the busy one")
	require.Zero(t, m.Spill(0))
	big.Commit(0)
	m.Scan(0, w.Head(), forever, 0)
	require.Zero(t, m.Spill(0), "it is too large, and never copied in part")
	require.Equal(t, 3, m.Held(0))
	m.Begin(all)
	for range 2 {
		require.Equal(t, raw.Sample, next(m).Kind)
	}
	it := next(m)
	require.Equal(t, []any{uint64(60), block + 8}, []any{it.Time, len(it.Data)})
	require.Nil(t, next(m))
	m.End()
	require.Equal(t, w.Head(), w.Tail())

	fits := reserve(t, w, 70, block-8)
	fits.Write(block-16, []byte{99})
	fits.Commit(0)
	small()
	m.Scan(0, w.Head(), forever, 0)
	require.Equal(t, uint64(block), m.Spill(0), "one that is as large as a block")
	m.Begin(all)
	require.Equal(t, uint64(50), next(m).Time)
	it = next(m)
	require.Equal(t, []any{uint64(70), byte(99)}, []any{it.Time, it.Data[block-16]})
	m.End()
}

// Rings of all kinds and sizes share the memory for copies.
func TestSpillOfRingsOfDifferentSizes(t *testing.T) {
	const budget = 300 << 10
	m := merge.New(nil, merge.Options{Spill: budget}, func(int, uint64) {})
	perf, small, buf := ringtest.New(512<<10, raw.LayoutRawTime, 0), ringtest.New(4096, raw.LayoutRawTime, 0), ringtest.NewRingBuf(512<<10, 0)
	r := buf.Raw()
	r.SetFields(0, 8)
	m.Add(perf.Raw())
	m.Add(small.Raw())
	m.Add(r)
	rnd := rand.New(rand.NewPCG(1, 1))
	now, spilled := uint64(0), [3]uint64{}
	for range 300 {
		written := 0
		for range 30 {
			now++
			p := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint64(nil, now), uint32(now%7))
			for range 3 {
				if perf.Output(now, append(p, make([]byte, rnd.IntN(3000))...)) == nil {
					written++
				}
				if buf.Output(append(p, make([]byte, rnd.IntN(3000))...)) == nil {
					written++
				}
			}
			if small.Output(now, p) == nil {
				written++
			}
		}
		for i, head := range []uint64{perf.Head(), small.Head(), buf.Head()} {
			m.Scan(i, head, forever, 0)
			spilled[i] += m.Spill(i)
			require.LessOrEqual(t, m.Spilled(), uint64(budget))
		}
		got, last := 0, uint64(0)
		m.Begin(all)
		for it := next(m); it != nil; it = next(m) {
			if it.Kind != raw.Sample {
				continue
			}
			require.GreaterOrEqual(t, it.Time, last)
			require.Equal(t, it.Time, binary.NativeEndian.Uint64(it.Data))
			last = it.Time
			got++
		}
		m.End()
		require.Equal(t, written, got)
	}
	require.Zero(t, m.Spilled())
	for i, n := range spilled {
		require.NotZero(t, n, "ring %d", i)
	}
}

// Who takes a perf ring out of a merger gives up what is held of it, and no more.
func TestRemove(t *testing.T) {
	m, ws := unchecked(512, 0, 256, 1<<32-64)
	for i, w := range ws {
		for time := range uint64(3) {
			require.NoError(t, w.Output(time*10+uint64(i), ringtest.Payload(1, 12)))
		}
		m.Scan(i, w.Head(), forever, 0)
	}
	require.Equal(t, []out{{0, raw.Sample, 0, false}, {1, raw.Sample, 1, false}, {2, raw.Sample, 2, false}, {0, raw.Sample, 10, false}}, drain(t, m, 10, 9))
	m.Remove(1)
	require.Equal(t, ws[1].Head(), ws[1].Tail())
	require.Equal(t, []out{{1, raw.Sample, 12, false}, {0, raw.Sample, 20, false}, {1, raw.Sample, 22, false}}, drain(t, m, all, 9))
	m.Remove(0)
	m.Remove(0)
	require.Empty(t, drain(t, m, all, 9))
	m.Add(ws[1].Raw())
	require.NoError(t, ws[1].Output(5, ringtest.Payload(1, 12)))
	m.Scan(0, ws[1].Head(), forever, 0)
	require.Equal(t, []out{{0, raw.Sample, 5, true}}, drain(t, m, all, 9), "what was delivered before counts")
}

// What a scan finds while a round is under way waits for the next one, also if it is early, and the round has pieces to come.
func TestEarlyOnesFoundInARound(t *testing.T) {
	const n = 20000 // more than a piece
	m, ws := unchecked(1<<20, 1<<32-64)
	output := func(times ...uint64) {
		for _, time := range times {
			require.NoError(t, ws[0].Output(time, ringtest.Payload(1, 12)))
		}
		m.Scan(0, ws[0].Head(), forever, 0)
	}
	for i := range uint64(n) {
		output(100 + i)
	}
	m.Begin(all)
	for i := range n {
		if i == 10 {
			output(2*n, n+99, 50)
		}
		require.Equal(t, uint64(100+i), next(m).Key)
	}
	require.Nil(t, next(m))
	m.End()
	require.Equal(t, []out{{0, raw.Sample, 50, true}}, drain(t, m, 60, 9))
	require.Equal(t, 2, m.Held(0))
}

// With many large rings, records are touched ahead, also where only early ones are due.
func TestOnlyEarlyOnesOfManyRings(t *testing.T) {
	var starts []uint64
	for i := range 17 {
		starts = append(starts, uint64(i)<<20)
	}
	m, ws := unchecked(512<<10, starts...)
	for _, time := range []uint64{20, 10} {
		for i, w := range ws {
			require.NoError(t, w.Output(time, ringtest.Payload(1, 12)))
			m.Scan(i, w.Head(), forever, 0)
		}
		require.Len(t, drain(t, m, all, 40), len(ws))
	}
}

// A merger that gave up what it held in the middle of a round goes on with what comes.
func TestScanAfterAbandon(t *testing.T) {
	m, ws := unchecked(1024, 0)
	for range 2 {
		for _, time := range []uint64{50, 10, 20, 30, 5} {
			require.NoError(t, ws[0].Output(time, ringtest.Payload(1, 12)))
		}
		m.Scan(0, ws[0].Head(), forever, 0)
		m.Begin(all)
		require.NotNil(t, next(m))
		m.Abandon()
		require.Equal(t, ws[0].Head(), ws[0].Tail())
		require.Zero(t, m.Held(0))
	}
}

// BenchmarkInversions merges what one ring holds, where a share of the records lies behind a later one: 0 or 30 percent, within some us, as
// where several CPUs write one ring buffer. perf is a perf ring without.
func BenchmarkInversions(b *testing.B) {
	const size, n, rounds = 256 << 10, 2000, 4
	for _, c := range []struct {
		perf    bool
		percent int
	}{{true, 0}, {true, 30}, {false, 0}, {false, 30}} {
		b.Run(fmt.Sprintf("perf=%v/inversions=%d%%", c.perf, c.percent), func(b *testing.B) {
			perf, buf := ringtest.New(size, raw.LayoutRawTime, 0), ringtest.NewRingBuf(size, 0)
			r := perf.Raw()
			if !c.perf {
				r = buf.Raw()
				r.SetFields(0, -1)
			}
			m := merge.New([]*raw.Ring{r}, merge.Options{}, func(int, uint64) {})
			rnd := rand.New(rand.NewPCG(1, 2))
			evs, rings := make([]raw.Event, merge.BatchSize), make([]int, merge.BatchSize)
			clock, payload := uint64(1<<20), make([]byte, 56)
			var took time.Duration
			got, sum := 0, uint64(0)
			for b.Loop() {
				for k := range rounds { // what is held is more than what is delivered
					for range n / rounds {
						clock += 100
						at := clock
						if rnd.IntN(100) < c.percent {
							at -= 200 + rnd.Uint64N(4000)
						}
						if binary.NativeEndian.PutUint64(payload, at); c.perf {
							perf.Output(at, payload)
						} else {
							buf.Output(payload)
						}
					}
					begin := time.Now()
					m.Scan(0, r.Head(), forever, 0)
					mark := clock - n/rounds*100*2
					if k == rounds-1 {
						mark = all
					}
					m.Begin(mark)
					for {
						k := m.Batch(evs, rings)
						if k == 0 {
							it := m.Next()
							if it == nil {
								break
							}
							evs[0], k = it.Event, 1
						}
						for _, ev := range evs[:k] {
							sum += ev.Time()
							got++
						}
					}
					m.End()
					took += time.Since(begin)
				}
			}
			if got%n != 0 {
				b.Fatal(got)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took.Nanoseconds())/float64(got), "ns/event")
		})
	}
}
