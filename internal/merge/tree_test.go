package merge

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The loser tree against a search for the minimum, of which the first wins.
func TestTreeFindsTheFirstMinimum(t *testing.T) {
	for n := 1; n <= 40; n++ {
		rnd := rand.New(rand.NewPCG(7, uint64(n)))
		keys := make([]uint64, n)
		key := func(i int) uint64 {
			if i < n {
				return keys[i]
			}
			return never
		}
		draw := func() uint64 {
			if rnd.IntN(8) == 0 {
				return never
			}
			return rnd.Uint64N(uint64(2 * n)) // many are equal
		}
		tree := newTree(n)
		require.Equal(t, uint64(never), tree.win.key, "a new tree is empty")
		for range 6 {
			for i := range keys {
				keys[i] = draw()
			}
			tree.build(key)
			for range 5 * n {
				want := node{key: never}
				for i := n - 1; i >= 0; i-- {
					if keys[i] <= want.key {
						want = node{key: keys[i], ring: i}
					}
				}
				require.Equal(t, want.key, tree.win.key, "%d keys", n)
				if want.key == never {
					break
				}
				require.Equal(t, want.ring, tree.win.ring, "%d keys", n)
				keys[want.ring] = draw()
				tree.replace(keys[want.ring])
			}
		}
	}
}

func TestTreeOfOneKeyTime(t *testing.T) {
	const n = 5
	left := [n]int{3, 3, 3, 3, 3}
	key := func(i int) uint64 {
		if i < n && left[i] > 0 {
			return 42
		}
		return never
	}
	tree := newTree(n)
	tree.build(key)
	var order []int
	for tree.win.key != never {
		i := tree.win.ring
		order = append(order, i)
		left[i]--
		tree.replace(key(i))
	}
	require.Equal(t, []int{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}, order)
}
