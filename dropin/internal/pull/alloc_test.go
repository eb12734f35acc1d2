//go:build !race && !perfbuf_poison

package pull

import (
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// Next allocates nothing, neither per event nor where it waits, without a deadline.
func TestNextDoesNotAllocate(t *testing.T) {
	for _, o := range orders {
		t.Run(o.String(), func(t *testing.T) {
			// Without a poll interval, for which the simulated kernel makes a timer.
			q := open(t, o, perfbuf.Options{RingBytes: 1 << 20, Wakeup: perfbuf.Wakeup{Events: 1}})
			payload := make([]byte, 52)
			round := func() {
				for i := range mostEvents + 10 { // one pass that ends early, and one wait
					if err := q.Output(i%2, payload); err != nil {
						t.Fatal(err)
					}
				}
				for range mostEvents + 10 {
					if _, err := q.Next(&q.sample); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 10 { // reused buffers grow to their final size
				round()
			}
			require.Zero(t, testing.AllocsPerRun(100, round))
		})
	}
}
