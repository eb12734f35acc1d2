package tail

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The work for a message does not grow with the hosts, or with the batches that wait: with all of them looked at each time, none of
// these would end.
func TestScale(t *testing.T) {
	const many = 200_000
	t.Run("hosts", func(t *testing.T) {
		m := newMerged(MergeOptions{})
		for i := range many {
			m.feed(float64(i)/many, batch(fmt.Sprint("h", i), 1, 0.5, 0.1))
		}
		require.Equal(t, many, len(m.out()))
		m.feed(9) // all are silent, and come back
		for i := range many {
			m.feed(10+float64(i)/many, batch(fmt.Sprint("h", i), 2, 12))
		}
		require.Equal(t, many, len(m.out()))
	})
	t.Run("missing batches", func(t *testing.T) {
		m := newMerged(MergeOptions{})
		for i := range many {
			m.Feed(batch("a", uint64(2*i+1), 1, 0.5), at(1))
			m.Advance(at(1))
		}
		m.Advance(at(10))
		require.Equal(t, 2*many, len(m.out()), "the events, the gaps between them, and the silence")
	})
	t.Run("pauses", func(t *testing.T) {
		m := newMerged(MergeOptions{})
		for i := range many {
			m.feed(1, batch(fmt.Sprint("h", i), 1, 0.5))
		}
		for i := range many {
			m.Resume(at(2 + float64(i)))
			m.feed(2+float64(i), batch("a", uint64(i+1), 2+float64(i)))
		}
		require.Empty(t, m.out())
	})
}
