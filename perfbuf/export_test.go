package perfbuf

// Reopen does to ring i what the return of its CPU does.
func (r *Reader) Reopen(i int) error { return r.reopen(i) }
