package perfbuf

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// For BenchmarkDrain and BenchmarkFold rings are filled once and read again and again: the tails
// are set back before each drain.

func BenchmarkDrain(b *testing.B) {
	for _, size := range []int{16, 56, 256, 1024} {
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			r, fake, n := benchReader(b, 1, 1<<20, size)
			var sum uint64
			perEvent(b, n, func() {
				fake[0].SetTail(0)
				if err := r.ForEach(func(ev Event) error { sum += ev.Time() + uint64(ev.Bytes()[0]); return nil }); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkFold(b *testing.B) {
	r, fake, n := benchReader(b, 1, 1<<20, 56)
	perEvent(b, n, func() {
		fake[0].SetTail(0)
		if _, err := Fold(r, uint64(0), func(sum uint64, ev Event) (uint64, error) { return sum + ev.Time() + uint64(ev.Bytes()[0]), nil }); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkVisit reads one event of each of two rings: the fixed cost of a pass.
func BenchmarkVisit(b *testing.B) {
	r, fake, _ := benchReader(b, 2, 64<<10, 56)
	for _, k := range fake {
		k.SetHead(80)
		k.Publish()
	}
	var sum uint64
	perEvent(b, 2, func() {
		for _, k := range fake {
			k.SetTail(0)
		}
		if err := r.ForEachBatch(func(batch *Batch) error {
			for ev := range batch.Events() {
				sum += uint64(ev.Bytes()[0])
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkOrdered merges rings whose events interleave perfectly (burst=1) or in runs. In between
// it drains equal rings without order, and reports how many times longer order takes.
func BenchmarkOrdered(b *testing.B) {
	for _, c := range []struct{ burst, rings, payload int }{
		{1, 1, 56}, {1, 2, 56}, {1, 8, 56}, {1, 32, 56}, {1, 128, 56},
		{32, 1, 56}, {32, 2, 56}, {32, 8, 56}, {32, 32, 56}, {32, 128, 56},
		{1, 8, 1024}, {1, 128, 1024}, {32, 128, 1024},
	} {
		b.Run(fmt.Sprintf("burst=%d/rings=%d/payload=%d", c.burst, c.rings, c.payload), func(b *testing.B) {
			ordered, unordered := newBenchRings(b, c.rings, 1<<16, c.burst, c.payload), newBenchRings(b, c.rings, 1<<16, c.burst, c.payload)
			s, err := ordered.Stream(StreamOptions{Order: Slack(0), Spill: Spill{Bytes: -1}})
			if err != nil {
				b.Fatal(err)
			}
			plain, err := unordered.Stream(StreamOptions{Order: Unordered()})
			if err != nil {
				b.Fatal(err)
			}
			var with, without []float64
			for b.Loop() {
				with, without = append(with, ordered.drain(s)), append(without, unordered.drain(plain))
			}
			o, u := quantile.Of(with, 0.5), quantile.Of(without, 0.5)
			b.ReportMetric(0, "ns/op") // which includes filling the rings
			b.ReportMetric(o, "ns/event")
			b.ReportMetric(u, "ns/event-unordered")
			b.ReportMetric(o/u, "ratio")
		})
	}
}

// benchRings is a Reader of rings that can be filled again and again, always in the same way.
type benchRings struct {
	*Reader
	b       *testing.B
	fake    []*ringtest.Ring
	rnd     *rand.Rand
	burst   int
	payload []byte
	time    uint64
}

func newBenchRings(b *testing.B, rings, ringBytes, burst, payload int) *benchRings {
	r := &benchRings{b: b, rnd: rand.New(rand.NewPCG(1, 2)), burst: burst, payload: make([]byte, payload), time: 1}
	for range rings {
		r.fake = append(r.fake, ringtest.New(ringBytes, raw.LayoutRawTime, 0))
	}
	r.Reader = newReader(ringtest.NewStill(func() uint64 { return r.time }, 0, r.fake...), Options{RingBytes: ringBytes, Wakeup: Wakeup{Events: 1}})
	b.Cleanup(func() { r.Close() })
	return r
}

// fill outputs until a ring is nearly full, and returns how many events that were.
func (r *benchRings) fill() (n int) {
	for {
		k := r.fake[r.rnd.IntN(len(r.fake))]
		for range 1 + r.rnd.IntN(2*r.burst-1) {
			if k.Head()-k.Tail() > uint64(len(k.Data())-len(r.payload)-50) {
				return n
			}
			r.time += 1 + r.rnd.Uint64N(100)
			k.Output(r.time, r.payload)
			n++
		}
	}
}

// drain fills the rings, reads src and returns ns per event.
func (r *benchRings) drain(src *Stream) float64 {
	n := r.fill()
	sum, got := uint64(0), 0
	begin := time.Now()
	err := src.ForEach(func(ev Event) error {
		sum += ev.Time() + uint64(ev.Bytes()[0])
		got++
		return nil
	})
	took := time.Since(begin)
	if err != nil || got != n {
		r.b.Fatalf("%d of %d events, %v", got, n, err)
	}
	return float64(took.Nanoseconds()) / float64(n)
}

// benchReader fills rings of ringBytes, and returns how many events that are.
func benchReader(b *testing.B, rings, ringBytes, payload int) (*Stream, []*ringtest.Ring, int) {
	fake := make([]*ringtest.Ring, rings)
	n := 0
	for i := range fake {
		fake[i] = ringtest.New(ringBytes, raw.LayoutRawTime, 0)
		for fake[i].Output(uint64(n), make([]byte, payload)) == nil {
			n++
		}
	}
	r := newReader(ringtest.NewStill(func() uint64 { return uint64(n) }, 0, fake...), Options{RingBytes: ringBytes, Wakeup: Wakeup{Events: 1}})
	b.Cleanup(func() { r.Close() })
	s, err := unordered(r)
	if err != nil {
		b.Fatal(err)
	}
	return s, fake, n
}

func perEvent(b *testing.B, n int, drain func()) {
	b.ReportAllocs()
	for b.Loop() {
		drain()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/event")
}
