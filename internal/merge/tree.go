package merge

// tree is a loser tree over the rings' keys: the winner is the ring with the smallest, and a new
// key for the winner is placed with one comparison per level. Equal keys are won by the lower
// index.
type tree struct {
	loser []node // loser[1:] are the inner nodes; the leaf of ring i is at len(loser)+i
	win   node
}

type node struct {
	key  uint64
	ring int
}

func (a node) before(b node) bool {
	return a.key < b.key || a.key == b.key && a.ring < b.ring
}

// newTree makes a tree for n rings, all of which have no key yet.
func newTree(n int) tree {
	size := 1
	for size < n {
		size *= 2
	}
	return tree{loser: make([]node, size), win: node{key: never}}
}

// build sets all keys at once.
func (t *tree) build(key func(ring int) uint64) { t.win = t.play(1, key) }

// play returns the winner below an inner node or leaf, and leaves the losers on the way.
func (t *tree) play(at int, key func(ring int) uint64) node {
	if at >= len(t.loser) {
		ring := at - len(t.loser)
		return node{key: key(ring), ring: ring}
	}
	a, b := t.play(2*at, key), t.play(2*at+1, key)
	if b.before(a) {
		a, b = b, a
	}
	t.loser[at] = b
	return a
}

// replace gives the winning ring a new key.
func (t *tree) replace(key uint64) {
	w := node{key: key, ring: t.win.ring}
	for at := (len(t.loser) + w.ring) / 2; at > 0; at /= 2 {
		if l := t.loser[at]; l.before(w) {
			t.loser[at], w = w, l
		}
	}
	t.win = w
}
