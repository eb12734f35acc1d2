package flight

import (
	"fmt"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// A snapshot of full rings of 1 MiB, without the grace periods: 16384 records of 64 bytes each.
func BenchmarkRings(b *testing.B) {
	for _, n := range []int{2, 32, 128} {
		var copies []*ringCopy
		for cpu := range n {
			r := ringtest.NewOverwritten(1 << 20)
			for i := range uint64(20000) {
				r.Output(i*uint64(n)+uint64(cpu), i, 4)
			}
			copies = append(copies, newCopy(r.Raw, nested))
		}
		step := func(name string, f func()) {
			b.Run(fmt.Sprintf("rings=%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					f()
				}
			})
		}
		step("copy", func() {
			for _, c := range copies {
				c.take()
				c.check()
			}
		})
		step("index", func() {
			for _, c := range copies {
				c.index(ever)
				c.keep(c.since)
			}
		})
		step("merge", func() { inOrder(copies)(func(raw.Event) bool { return true }) })
	}
}
