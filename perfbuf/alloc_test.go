//go:build !race && !perfbuf_poison

package perfbuf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Reading allocates nothing, neither per event nor per pass, wrapping records included.
func TestReadingDoesNotAllocate(t *testing.T) {
	words := NewDecoder[[4]uint64]()
	for name, source := range sourceKinds {
		var sum uint64
		for how, read := range map[string]func(src *Stream) error{
			"Fold": func(src *Stream) error {
				n, err := Fold(src, uint64(0), func(acc uint64, ev Event) (uint64, error) { return acc + ev.Time(), nil })
				sum += n
				return err
			},
			"ForEach": func(src *Stream) error {
				f := func(ev Event) error { sum += ev.Time() + uint64(ev.Bytes()[0]) + uint64(len(ev.Bytes())); return nil }
				return src.ForEach(f)
			},
			"Decoder.All": func(src *Stream) error {
				return src.ForEachBatch(func(b *Batch) error {
					for v, ev := range words.All(b.Events()) {
						sum += v[0] + ev.Time()
					}
					return nil
				})
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				rings := 3
				if name == "ring" {
					rings = 1
				}
				k := newFake(t, rings, Options{})
				src := source(k)
				pass := func() {
					if err := read(src); err != nil {
						t.Fatal(err)
					}
				}
				// Records of 72 bytes: they come to lie across the edge
				time, payload := uint64(100), make([]byte, 52)
				round := func() {
					for _, w := range k.w {
						for range 10 {
							time++
							if err := w.Output(time, payload); err != nil {
								t.Fatal(err)
							}
						}
						time -= 8 // some lie behind later ones of other rings, and of their own
					}
					pass()
				}
				for range 100 { // reused buffers grow to their final size
					round()
				}
				before := k.Stats().Total().Samples
				require.Zero(t, testing.AllocsPerRun(100, round))
				require.Equal(t, uint64(101*rings*10), k.Stats().Total().Samples-before)
			})
		}
	}
}
