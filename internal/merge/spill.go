package merge

import (
	"slices"
	"sort"

	"github.com/ringfold/ringfold/internal/raw"
)

// A ring that fills up while its records wait for their turn has its oldest ones copied out, a chunk
// at a time, and its tail moved: the kernel has room again, and the order does not change, as
// records are found by their offsets all the same.

// chunk is a stretch of a ring, from one record's beginning to another's, that was copied out.
type chunk struct {
	block      *raw.Ring // its bytes; offsets count from start
	words      []uint64  // the block's memory
	start, end uint64
	left       int // undelivered samples in it
}

func (c *chunk) bytes() uint64 { return 8 * uint64(len(c.words)) }

// arena is memory for chunks: blocks, made when first needed and used again.
type arena struct {
	budget uint64
	made   uint64 // bytes of all blocks
	free   []*chunk
	used   uint64 // bytes of the blocks in use
}

// maxRecord is above the size of any record of a perf ring, as header.size has 16 bits. maxBlock keeps one copy
// short: other rings wait for it.
const (
	maxRecord = 1 << 16
	maxBlock  = 1 << 20
)

// blockBytes is how much of a ring is copied out at once, at most: a power of two, as the ring's size is.
func blockBytes(r *raw.Ring) uint64 {
	return min(r.Size(), max(min(r.Size()/4, maxBlock), maxRecord))
}

// get returns an unused block for a copy of some of a ring, nil if that would exceed the budget.
func (a *arena) get(of *raw.Ring) *chunk {
	n := blockBytes(of)
	i := len(a.free) - 1
	for i >= 0 && a.free[i].bytes() != n {
		i--
	}
	for ; i < 0 && len(a.free) > 0 && a.made+n > a.budget; a.free = a.free[1:] { // for rings of another size
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
	c.block.SetSource(nil) // it may be free for long, and keeps no reader alive
	a.free = append(a.free, c)
}

// leave ends the life of the item that the ring's chunk from has.
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

// Spill copies the oldest held records of ring i out and publishes its tail behind them. It returns
// how many bytes that freed: 0 if nothing is held there, the budget is used up, or the oldest record is busy or larger than
// a block. No item may be with the caller: its bytes may be among them.
func (m *Merger) Spill(i int) (bytes uint64) {
	m.release()
	r := &m.rings[i]
	m.commit(i)
	block := blockBytes(r.raw)
	to := r.boundary(block)
	bytes = to - r.freed
	if bytes == 0 {
		return 0
	}
	if left := r.within(r.freed, to); left > 0 {
		if bytes > block && r.isLarger(block) {
			return 0
		}
		c := m.arena.get(r.raw)
		if c == nil {
			return 0
		}
		n := min(bytes, block)
		c.start, c.end, c.left = r.freed, r.freed+n, left
		r.raw.CopyWords(c.words, r.freed, n)
		r.chunks = append(r.chunks, c)
		r.plain = false
	}
	m.free(i, to)
	return bytes
}

// isLarger says that the record at freed is a sample of more than n bytes. Only a ring buffer has such.
func (r *ring) isLarger(n uint64) bool {
	r.raw.Parse(r.freed, r.scan, &r.rec)
	return r.rec.Kind == raw.Sample && r.rec.Size > n
}

// Spilled returns how many bytes of memory hold records that were copied out.
func (m *Merger) Spilled() uint64 { return m.arena.used }

// Copied is how many of these are of ring i.
func (m *Merger) Copied(i int) uint64 {
	r := &m.rings[i]
	return uint64(len(r.chunks)) * blockBytes(r.raw)
}

// boundary returns the last beginning of an undelivered record within n bytes from freed on, where
// one begins too. If there is none, all but that first record's bytes have been delivered, passed
// over, or are damaged: it returns the next beginning then, be it that of a busy one, or scan. It does not go beyond a
// busy one.
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

// within counts the undelivered samples from one offset to another.
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

// mainFrom returns how many of the main run lie before an offset.
func (r *ring) mainFrom(off uint64) int {
	all := r.main.all()
	return sort.Search(len(all), func(i int) bool { return int64(all[i].Off&^flags-off) >= 0 })
}

// chunkOf finds the chunk that has a record, nil if none has. As a rule it is the first.
func (r *ring) chunkOf(off uint64) *chunk {
	for _, c := range r.chunks {
		if off-c.start < c.end-c.start {
			return c
		}
	}
	return nil // a damaged head made offsets wrap
}
