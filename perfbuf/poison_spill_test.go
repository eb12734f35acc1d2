//go:build perfbuf_poison

package perfbuf

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
