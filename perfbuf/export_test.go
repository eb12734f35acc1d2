package perfbuf

// Reopen does to ring i what the return of its CPU does.
func (r *Reader) Reopen(i int) error { return r.reopen(i) }

// Replug does what a CPU's coming does.
func (r *Reader) Replug() error { return r.replug() }

// OpenDefault is Open with rings that perf_buffer__new sets up.
func OpenDefault(mapFD int, opts Options) (*Reader, error) { return openDefault(mapFD, opts) }
