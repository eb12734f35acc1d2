package tail

import "container/heap"

// The rankings that a host may be in.
const (
	byEvent = iota // hosts that have events, by the oldest one
	byFloor        // hosts that others wait for, by how far they are
	byDue          // hosts that may keep us waiting, by when that is over
	rankings
)

// ranking is a heap of hosts, the first on top. Each host knows its place, so moving it takes no search.
type ranking struct {
	kind  int
	less  func(a, b *host) bool
	hosts []*host
}

// top returns the first host, nil if there is none.
func (r *ranking) top() *host {
	if len(r.hosts) == 0 {
		return nil
	}
	return r.hosts[0]
}

// put moves a host to where it belongs now, or out.
func (r *ranking) put(h *host, in bool) {
	switch at := h.ranks[r.kind] - 1; {
	case in && at < 0:
		heap.Push(r, h)
	case in:
		heap.Fix(r, at)
	case at >= 0:
		heap.Remove(r, at)
	}
}

func (r *ranking) Len() int           { return len(r.hosts) }
func (r *ranking) Less(i, j int) bool { return r.less(r.hosts[i], r.hosts[j]) }

func (r *ranking) Swap(i, j int) {
	r.hosts[i], r.hosts[j] = r.hosts[j], r.hosts[i]
	r.hosts[i].ranks[r.kind], r.hosts[j].ranks[r.kind] = i+1, j+1
}

func (r *ranking) Push(x any) {
	h := x.(*host)
	r.hosts = append(r.hosts, h)
	h.ranks[r.kind] = len(r.hosts)
}

func (r *ranking) Pop() any {
	last := len(r.hosts) - 1
	h := r.hosts[last]
	r.hosts[last] = nil
	r.hosts = r.hosts[:last]
	h.ranks[r.kind] = 0
	return h
}
