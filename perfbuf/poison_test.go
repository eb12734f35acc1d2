//go:build perfbuf_poison

package perfbuf

import (
	"bytes"
	"testing"
	"time"

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

// Events that were copied out of their ring are destroyed after their life like all others.
func TestKeptSlicesOfCopiesArePoisoned(t *testing.T) {
	for ending, end := range map[string]func(*fake) error{
		"read to the end": func(*fake) error { return nil },
		"stopped":         func(*fake) error { return ErrStop },
		"closed":          func(k *fake) error { k.Close(); return ErrStop },
		"panic":           func(*fake) error { panic(errTest) },
	} {
		t.Run(ending, func(t *testing.T) {
			k := newFakeAt(t, 1, fakeRingSize-16, Options{}) // the first one wraps
			s := k.slow(Spill{})
			base := k.clock.Load()
			n := uint64(k.fill(0, base))
			require.Empty(t, ids(t, s))
			require.Equal(t, n*recordSize, k.Stats().SpilledBytes)
			k.clock.Add(uint64(2 * time.Hour))
			var kept [][]byte
			poisoned := func() {
				for _, b := range kept {
					require.Equal(t, bytes.Repeat([]byte{0xCC}, 12), b)
				}
			}
			func() {
				defer func() { recover() }()
				require.NoError(t, s.ForEach(func(ev Event) error {
					poisoned()
					require.Equal(t, base+uint64(len(kept)), id(t, ev))
					kept = append(kept, ev.Bytes())
					if len(kept) == int(n) || len(kept) == 5 {
						return end(k)
					}
					return nil
				}))
			}()
			require.NotEmpty(t, kept)
			poisoned()
		})
	}
}
