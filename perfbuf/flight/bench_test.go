//go:build linux && cgo

package flight_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
)

// The time of a snapshot of full rings of 1 MiB, and the outputs refused or overwritten meanwhile:
// with live rings, and with paused ones.
func BenchmarkSnapshot(b *testing.B) {
	for nth, run := range []func(testing.TB, *kerneltest.Emitter) *load{nil, paced, full} {
		for _, pause := range []bool{false, true} {
			b.Run(fmt.Sprintf("load=%d/pause=%v", nth, pause), func(b *testing.B) {
				e := kerneltest.Load(b)
				cpus := kerneltest.OnlineCPUs(b)
				r := open(b, e, flight.Options{MaxBytes: len(cpus) << 20, Pause: pause})
				e.EmitOn(cpus, 20000, 40)
				l := &load{}
				if run != nil {
					l = run(b, e)
				}
				snapshot(b, r).Release()
				var took []time.Duration
				kept := 0
				for b.Loop() {
					begin := time.Now()
					s := snapshot(b, r)
					took = append(took, time.Since(begin))
					for _, ring := range s.Rings() {
						kept += ring.Bytes
					}
					s.Release()
					time.Sleep(5 * time.Millisecond)
				}
				l.stop()
				b.ReportMetric(float64(quantile.Of(took, 0.5).Nanoseconds())/1e3, "µs-p50")
				b.ReportMetric(float64(quantile.Of(took, 0.99).Nanoseconds())/1e3, "µs-p99")
				b.ReportMetric(100*float64(kept)/float64(len(took))/float64(len(cpus)<<20), "%kept")
				b.ReportMetric(float64(r.Stats().Refused)/float64(len(took)), "refused/op")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// The time of a snapshot of full rings of 1 MiB on all idle CPUs, compared with a copy of as many
// bytes of ordinary memory, and the share of the two waits. For many CPUs, run it in a virtual
// machine: make test-vm TESTS=flight CPUS=32 ACCEL=tcg ARGS='-test.run none -test.bench AllCPUs'.
func BenchmarkAllCPUs(b *testing.B) {
	e := kerneltest.Load(b)
	cpus := kerneltest.OnlineCPUs(b)
	r := open(b, e, flight.Options{MaxBytes: len(cpus) << 20})
	e.EmitOn(cpus, 20000, 40)
	idle := open(b, kerneltest.Load(b), flight.Options{MaxBytes: len(cpus) << 20})
	from, to := slices.Repeat([]byte{1}, len(cpus)<<20), make([]byte, len(cpus)<<20)
	var full, empty, copies []time.Duration
	timed := func(into *[]time.Duration, f func()) {
		begin := time.Now()
		f()
		*into = append(*into, time.Since(begin))
	}
	for b.Loop() {
		timed(&copies, func() { copy(to, from) })
		var s *flight.Snapshot
		timed(&full, func() { s = snapshot(b, r) })
		s.Release()
		timed(&empty, func() { s = snapshot(b, idle) })
		s.Release()
	}
	median := func(d []time.Duration) float64 { return quantile.Of(d, 0.5).Seconds() * 1e3 }
	b.ReportMetric(float64(len(cpus)), "rings")
	b.ReportMetric(median(full), "ms-full")
	b.ReportMetric(median(empty), "ms-empty")
	b.ReportMetric(median(copies), "ms-copy")
	b.ReportMetric((median(full)-median(empty))/median(copies), "copies")
	b.ReportMetric(0, "ns/op")
}

// paced outputs bursts of 100 events of 40 bytes on each CPU: some 100,000 a second.
func paced(t testing.TB, e *kerneltest.Emitter) *load {
	l := &load{}
	for _, cpu := range kerneltest.OnlineCPUs(t) {
		l.wg.Go(func() {
			for !l.quit.Load() {
				e.Emit(cpu, 100, 40)
				time.Sleep(time.Millisecond)
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// full outputs without a pause.
func full(t testing.TB, e *kerneltest.Emitter) *load {
	return start(t, e, func(int) int { return 40 })
}

// The cost of an output to an overwritable ring, and to a normal one. The benchmark empties the
// latter now and then, with the timer stopped.
func BenchmarkOutput(b *testing.B) {
	for _, size := range []int{40, 256} {
		for _, overwritable := range []bool{true, false} {
			b.Run(fmt.Sprintf("size=%d/overwritable=%v", size, overwritable), func(b *testing.B) {
				e := kerneltest.Load(b)
				cpu := kerneltest.OnlineCPUs(b)[0]
				empty := func() {}
				if overwritable {
					open(b, e, flight.Options{MaxBytes: 1 << 20, CPUs: []int{cpu}})
				} else {
					r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{RingBytes: 1 << 20, CPUs: []int{cpu}, Wakeup: perfbuf.Wakeup{Bytes: 1 << 19}})
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(func() { r.Close() })
					s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
					if err != nil {
						b.Fatal(err)
					}
					empty = func() { s.ForEach(func(perfbuf.Event) error { return nil }) }
				}
				const n = 512
				var took []time.Duration
				for b.Loop() {
					begin := time.Now()
					e.Emit(cpu, n, size)
					took = append(took, time.Since(begin))
					empty()
				}
				if _, failed := e.Counts(cpu); failed > 0 {
					b.Fatal(failed, "outputs failed")
				}
				b.ReportMetric(float64(quantile.Of(took, 0.5).Nanoseconds())/n, "ns/output")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
