package merge

import "slices"

// queue is first in, first out. It keeps its memory, so that it seldom allocates.
type queue[T any] struct {
	buf   []T
	first int // of buf, the oldest; those before are gone
}

// all is the elements, oldest first, until the next change.
func (q *queue[T]) all() []T { return q.buf[q.first:] }

func (q *queue[T]) empty() bool { return q.first == len(q.buf) }

// front is the oldest. There must be one.
func (q *queue[T]) front() T { return q.buf[q.first] }

// pop removes the oldest.
func (q *queue[T]) pop() {
	if q.first++; q.empty() {
		q.clear()
	}
}

// insert adds an element before the i-th of all.
func (q *queue[T]) insert(i int, v T) {
	if q.first > len(q.buf)/2 { // move no element more than once for each one popped
		q.buf = slices.Delete(q.buf, 0, q.first)
		q.first = 0
	}
	q.buf = slices.Insert(q.buf, q.first+i, v)
}

func (q *queue[T]) push(v T) { q.insert(len(q.all()), v) }

func (q *queue[T]) clear() { q.buf, q.first = q.buf[:0], 0 }
