package tail

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// log is the sequence of a log's batches.
type log struct {
	next  uint64          // the sequence number that is due
	held  map[uint64]held // those that have come before it
	order sequences       // of those
}

// held is a batch that waits for one before it, since it has come.
type held struct {
	b     *wire.Batch
	since time.Time
}

// sequences is a heap.
type sequences []uint64

func (s sequences) Len() int           { return len(s) }
func (s sequences) Less(i, j int) bool { return s[i] < s[j] }
func (s sequences) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sequences) Push(x any)        { *s = append(*s, x.(uint64)) }

func (s *sequences) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// hold keeps a batch until its turn has come.
func (l *log) hold(b *wire.Batch, now time.Time) {
	l.held[b.Sequence] = held{b, now}
	heap.Push(&l.order, b.Sequence)
}

// first is the first batch that is held, if one is.
func (l *log) first() held {
	if len(l.order) == 0 {
		return held{}
	}
	return l.held[l.order[0]]
}

// release gives back the first batch that is held, if it is its turn.
func (l *log) release() *wire.Batch {
	b := l.first().b
	if b == nil || b.Sequence != l.next {
		return nil
	}
	heap.Pop(&l.order)
	delete(l.held, b.Sequence)
	return b
}

func missing(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("batch %d", first)
	}
	return fmt.Sprintf("batches %d to %d", first, last)
}
