package perfbuf

import "slices"

// Copied says that a sample does not lie in its ring: it was put together, as it went over the edge.
func (e Event) Copied(r *Reader) bool {
	return !slices.ContainsFunc(r.all(), func(ring *Ring) bool { return ring.raw.View() == e.ev.View })
}

// Reopen does to ring i what the return of its CPU does.
func (r *Reader) Reopen(i int) error { return r.in.Hotplug.Reopen(i) }

// Replug does what a CPU's coming does.
func (r *Reader) Replug() error { return r.in.Hotplug.Replug() }
