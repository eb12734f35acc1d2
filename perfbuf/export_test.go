package perfbuf

// Reopen does to ring i what the return of its CPU does.
func (r *Reader) Reopen(i int) error { return r.reopen(i) }

// Replug does what a CPU that comes or goes makes the reader do.
func (r *Reader) Replug() error { return r.replug() }
