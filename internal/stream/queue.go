package stream

import "slices"

// queue is a FIFO. It reuses its memory, so that it seldom allocates.
type queue[T any] struct {
	buf   []T
	first int // index in buf of the oldest
}

// all returns the elements, oldest first. They are valid until the next change.
func (q *queue[T]) all() []T { return q.buf[q.first:] }

func (q *queue[T]) empty() bool { return q.first == len(q.buf) }

// front returns the oldest. There must be one.
func (q *queue[T]) front() T { return q.buf[q.first] }

// pop removes the oldest.
func (q *queue[T]) pop() { q.first++ }

// compact makes room at the end. It moves each element at most once per popped one.
func (q *queue[T]) compact() {
	if q.first > len(q.buf)/2 {
		q.buf = q.buf[:copy(q.buf, q.buf[q.first:])]
		q.first = 0
	}
}

// insert adds an element before the i-th of all.
func (q *queue[T]) insert(i int, v T) {
	q.compact()
	q.buf = slices.Insert(q.buf, q.first+i, v)
}

func (q *queue[T]) push(v T) {
	q.compact()
	q.buf = append(q.buf, v)
}

// remove removes the i-th of all.
func (q *queue[T]) remove(i int) {
	if i == 0 {
		q.pop()
		return
	}
	q.buf = slices.Delete(q.buf, q.first+i, q.first+i+1)
}
