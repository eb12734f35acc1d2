package perfbuf

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// Rings are filled once and read again and again: the tails are set back before each drain.

func BenchmarkDrain(b *testing.B) {
	for _, size := range []int{16, 56, 256, 1024} {
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			r, fake, n := benchReader(b, 1, 1<<20, size, 1)
			var sum uint64
			perEvent(b, n, func() {
				fake[0].SetTail(0)
				if err := r.ForEach(func(ev Event) error { sum += ev.Time() + uint64(ev.Head()[0]); return nil }); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkFold(b *testing.B) {
	r, fake, n := benchReader(b, 1, 1<<20, 56, 1)
	perEvent(b, n, func() {
		fake[0].SetTail(0)
		if _, err := Fold(r, uint64(0), func(sum uint64, ev Event) uint64 { return sum + ev.Time() + uint64(ev.Head()[0]) }); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkOrdered merges rings whose events interleave perfectly (burst=1) or in runs.
func BenchmarkOrdered(b *testing.B) {
	for _, burst := range []int{1, 32} {
		for _, rings := range []int{1, 2, 8, 32, 128} {
			b.Run(fmt.Sprintf("burst=%d/rings=%d", burst, rings), func(b *testing.B) {
				r, fake, n := benchReader(b, rings, 1<<16, 56, burst)
				s, err := r.Ordered(OrderOptions{Mode: Slack(0)})
				if err != nil {
					b.Fatal(err)
				}
				var raws []*raw.Ring
				for _, ring := range r.rings {
					raws = append(raws, ring.raw)
				}
				var sum uint64
				perEvent(b, n, func() {
					for _, k := range fake {
						k.SetTail(0)
					}
					s.merger = merge.New(raws, merge.Options{}, s.committed)
					if err := s.Flush(func(ev Event) error { sum += ev.Time() + uint64(ev.Head()[0]); return nil }); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// benchReader fills rings of ringBytes with samples whose times interleave at random, in bursts of so many per ring, and returns how many.
func benchReader(b *testing.B, rings, ringBytes, payload, burst int) (*Reader, []*ringtest.Ring, int) {
	rnd := rand.New(rand.NewPCG(1, 2))
	fake := make([]*ringtest.Ring, rings)
	readers := make([]*Ring, rings)
	for i := range fake {
		fake[i] = ringtest.New(ringBytes, raw.LayoutRawTime, 0)
		readers[i] = newRing(i, fake[i].Raw())
	}
	n, time, bytes := 0, uint64(1), make([]byte, payload)
	for full := false; !full; {
		k := fake[rnd.IntN(rings)]
		for range 1 + rnd.IntN(2*burst-1) {
			time += 1 + rnd.Uint64N(100)
			if full = k.Output(time, bytes) != nil; full {
				break
			}
			n++
		}
	}
	r := newReader(readers, kernel{poll: benchPoller{}, clock: func() uint64 { return time }, free: func() {}}, Options{RingBytes: ringBytes})
	b.Cleanup(func() { r.Close() })
	return r, fake, n
}

func perEvent(b *testing.B, n int, drain func()) {
	b.ReportAllocs()
	for b.Loop() {
		drain()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/event")
}

// benchPoller never has to wait.
type benchPoller struct{ poller }

func (benchPoller) interrupt() {}
func (benchPoller) close()     {}
