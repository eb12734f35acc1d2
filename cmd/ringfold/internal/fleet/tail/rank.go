package tail

import "container/heap"

// ranking is a heap, which [heap] keeps.
type ranking[T any] struct {
	before func(a, b T) bool
	items  []T // the first one is before all others
}

func (r *ranking[T]) add(item T) { heap.Push(r, item) }
func (r *ranking[T]) fix()       { heap.Fix(r, 0) } // after a change of the first item
func (r *ranking[T]) remove()    { heap.Pop(r) }    // the first item

func (r *ranking[T]) Len() int           { return len(r.items) }
func (r *ranking[T]) Less(i, j int) bool { return r.before(r.items[i], r.items[j]) }
func (r *ranking[T]) Swap(i, j int)      { r.items[i], r.items[j] = r.items[j], r.items[i] }
func (r *ranking[T]) Push(x any)         { r.items = append(r.items, x.(T)) }

func (r *ranking[T]) Pop() any {
	n := len(r.items) - 1
	last := r.items[n]
	clear(r.items[n:]) // for the garbage collector
	r.items = r.items[:n]
	return last
}
