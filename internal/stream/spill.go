package stream

import (
	"slices"
	"sort"

	"github.com/ringfold/ringfold/internal/raw"
)

// A ring may fill up while its records wait for their turn. Spill then copies the oldest ones out,
// a chunk at a time, and moves the tail. The kernel has room again, and the order does not change:
// records are still found by their offsets.

// chunk is a copied-out stretch of a ring. It begins and ends where a record begins.
type chunk struct {
	block      *raw.Ring // its bytes; offsets count from start
	words      []uint64  // the block's memory
	start, end uint64
	left       int // undelivered samples in it
}

func (c *chunk) bytes() uint64 { return 8 * uint64(len(c.words)) }

// arena allocates blocks for chunks on demand, and reuses them.
type arena struct {
	budget uint64
	made   uint64 // bytes of all blocks
	free   []*chunk
	used   uint64 // bytes of the blocks in use
}

// maxRecord is above the size of any perf record, as header.size has 16 bits. maxBlock keeps one
// copy short, because other rings wait for it.
const (
	maxRecord = 1 << 16
	maxBlock  = 1 << 20
)

// blockBytes returns how much of a ring one chunk holds: a power of two, as the ring's size is.
func blockBytes(r *raw.Ring) uint64 {
	return min(r.Size(), max(min(r.Size()/4, maxBlock), maxRecord))
}

// get returns an unused block for a part of a ring, or nil if that would exceed the budget.
func (a *arena) get(of *raw.Ring) *chunk {
	n := blockBytes(of)
	i := len(a.free) - 1
	for i >= 0 && a.free[i].bytes() != n {
		i--
	}
	for ; i < 0 && len(a.free) > 0 && a.made+n > a.budget; a.free = a.free[1:] { // of other sizes
		a.made -= a.free[0].bytes()
	}
	var c *chunk
	switch {
	case i >= 0:
		c = a.free[i]
		a.free = slices.Delete(a.free, i, i+1)
		c.block.CopyOf(of)
	case a.made+n <= a.budget:
		c = &chunk{words: make([]uint64, n/8+1)[:n/8]} // see NewCopy
		c.block = raw.NewCopy(of, c.words)
		a.made += n
	default:
		return nil
	}
	a.used += n
	return c
}

func (a *arena) put(c *chunk) {
	a.used -= c.bytes()
	a.free = append(a.free, c)
}

// leave invalidates the item that lies in the ring's chunk from.
func (a *arena) leave(r *ring) {
	c := r.from
	r.from = nil
	if c.left--; c.left > 0 {
		return
	}
	for i := range r.chunks {
		if r.chunks[i] == c {
			r.chunks = append(r.chunks[:i], r.chunks[i+1:]...)
			break
		}
	}
	a.put(c)
}

// spill copies the oldest held records of ring i out and publishes its tail behind them. It returns
// how many bytes that freed: 0 if nothing is held there, the budget is used up, or the oldest
// record is busy or larger than a block. The caller must hold no item, as its bytes may be among
// them.
func (m *merger) spill(i int) (bytes uint64) {
	m.release()
	r := m.rings[i]
	m.commit(i)
	block := blockBytes(r.Raw)
	to := r.boundary(block)
	bytes = to - r.freed
	if bytes == 0 {
		return 0
	}
	if left := r.within(r.freed, to); left > 0 {
		if bytes > block && r.isLarger(block) {
			return 0
		}
		c := m.arena.get(r.Raw)
		if c == nil {
			return 0
		}
		n := min(bytes, block)
		c.start, c.end, c.left = r.freed, r.freed+n, left
		r.Raw.CopyWords(c.words, r.freed, n)
		r.chunks = append(r.chunks, c)
		r.plain = false
	}
	m.free(i, to)
	return bytes
}

// isLarger reports whether the record at freed is a sample of more than n bytes. Only ring buffers
// have those.
func (r *ring) isLarger(n uint64) bool {
	r.Raw.Parse(r.freed, r.scan, &r.rec)
	return r.rec.Kind == raw.Sample && r.rec.Size > n
}

// spilled returns how many bytes of memory hold copied-out records.
func (m *merger) spilled() uint64 { return m.arena.used }

// copied returns how many of these are of the ring.
func (r *ring) copied() uint64 { return uint64(len(r.chunks)) * blockBytes(r.Raw) }

// boundary returns the offset of the last undelivered record within n bytes from freed, itself
// where a record begins. If there is none, all but the first record's bytes are delivered, passed
// over or damaged. It then returns where the next record begins, busy or not, or scan. It never
// passes a busy record.
func (r *ring) boundary(n uint64) uint64 {
	all := r.settled() - r.freed
	if all <= n {
		return r.settled()
	}
	last, next := uint64(0), all
	consider := func(e raw.Mark) {
		at := e.Off&^flags - r.freed
		switch {
		case int64(at) <= 0 || e.Off&unreported != 0:
		case at <= n:
			last = max(last, at)
		default:
			next = min(next, at)
		}
	}
	main := r.main.all()
	if i := r.mainFrom(r.freed + n + 1); i > 0 {
		consider(main[i-1])
		main = main[i:]
	}
	if len(main) > 0 {
		consider(main[0])
	}
	for _, e := range r.early.all() {
		consider(e)
	}
	if last == 0 {
		last = next
	}
	return r.freed + last
}

// within counts the undelivered samples between two offsets.
func (r *ring) within(from, to uint64) (n int) {
	for _, marks := range [...][]raw.Mark{r.main.all()[r.mainFrom(from):r.mainFrom(to)], r.early.all()} {
		for _, e := range marks {
			if e.Off&isOdd == 0 && e.Off-from < to-from {
				n++
			}
		}
	}
	return n
}

// mainFrom returns how many records of the main run lie before an offset.
func (r *ring) mainFrom(off uint64) int {
	all := r.main.all()
	return sort.Search(len(all), func(i int) bool { return int64(all[i].Off&^flags-off) >= 0 })
}

// chunkOf finds the chunk that has a record, or nil. It is usually the first.
func (r *ring) chunkOf(off uint64) *chunk {
	for _, c := range r.chunks {
		if off-c.start < c.end-c.start {
			return c
		}
	}
	return nil // a damaged head made offsets wrap
}
