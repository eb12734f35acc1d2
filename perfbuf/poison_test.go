//go:build perfbuf_poison

package perfbuf

import (
	"bytes"
	"testing"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// In the poison build, a kept slice is destroyed as soon as the function it was handed to has
// returned: wrapping records, the last of a ring and of a pass included.
func TestKeptSlicesArePoisoned(t *testing.T) {
	for name, source := range sourceKinds {
		for ending, stop := range map[string]bool{"read to the end": false, "stopped": true} {
			t.Run(name+" "+ending, func(t *testing.T) {
				for before := uint64(8); before <= 80; before += 8 {
					k := newFakeAt(t, 1, fakeRingSize-before, Options{})
					src := source(k)
					for i := range uint64(3) {
						require.NoError(t, k.w[0].Output(i, ringtest.Payload(i, 60)))
					}
					var kept [][]byte
					n := uint64(0)
					poisoned := func() {
						for _, b := range kept {
							require.Equal(t, len(b), bytes.Count(b, []byte{0xCC}))
						}
					}
					require.NoError(t, src.ForEach(func(ev Event) error {
						poisoned()
						require.Equal(t, n, id(t, ev), "what is alive is well")
						require.Equal(t, ev.Bytes(), ev.Record().Data)
						kept = append(kept, ev.Bytes())
						if n++; stop && n == 2 {
							return ErrStop
						}
						return nil
					}))
					require.NotEmpty(t, kept)
					poisoned()
				}
			})
		}
	}
}

func TestPoisonAfterPanicAndClose(t *testing.T) {
	for name, source := range sourceKinds {
		for ending, end := range map[string]func(*fake){"panic": func(*fake) { panic(errTest) }, "close": func(k *fake) { k.Close() }} {
			t.Run(name+" "+ending, func(t *testing.T) {
				k := newFake(t, 1, Options{})
				src := source(k)
				k.output(0, 1, 2)
				var kept []byte
				func() {
					defer func() { recover() }()
					src.ForEach(func(ev Event) error { kept = ev.Bytes(); end(k); return nil })
				}()
				require.Equal(t, bytes.Repeat([]byte{0xCC}, 12), kept)
			})
		}
	}
}

// The ring itself is the kernel's and is not touched.
func TestPoisonLeavesTheRingAlone(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.output(0, 1, 2, 3)
	before := bytes.Clone(k.w[0].Data())
	ids(t, k.unordered())
	require.Equal(t, before, k.w[0].Data())
}
