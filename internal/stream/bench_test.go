package stream

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// BenchmarkInversions merges one ring, in which 0 or 30 percent of the records lie behind a later
// one, within a few us, as if several CPUs wrote one ring buffer. perf is a perf ring without
// inversions.
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
			m := newMerger(0, func(int, uint64) {})
			m.add(&Ring{Raw: r})
			rnd := rand.New(rand.NewPCG(1, 2))
			evs, rings := make([]raw.Event, batchSize), make([]int, batchSize)
			clock, payload := uint64(1<<20), make([]byte, 56)
			var took time.Duration
			got, sum := 0, uint64(0)
			for b.Loop() {
				for k := range rounds { // the ring holds more than a round delivers
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
					m.rings[0].scanTo(r.Head(), forever, 0)
					mark := clock - n/rounds*100*2
					if k == rounds-1 {
						mark = all
					}
					m.begin(mark)
					for {
						k := m.batch(evs, rings)
						if k == 0 {
							it := m.next()
							if it == nil {
								break
							}
							evs[0], k = it.event, 1
						}
						for _, ev := range evs[:k] {
							sum += ev.Time()
							got++
						}
					}
					m.end()
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
