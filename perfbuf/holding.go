package perfbuf

// heldByStream reports whether an Ordered stream holds the rings: all of them, if any.
func (r *Reader) heldByStream() bool { return r.rings[0].owner.Load() == ordering }

// claimAll makes the caller the only reader of all rings, and of those to come.
func (r *Reader) claimAll() error {
	r.holding.Lock()
	defer r.holding.Unlock()
	rings := r.all()
	for i, ring := range rings {
		if err := ring.claim(ordering); err != nil {
			disclaim(rings[:i])
			return err
		}
	}
	return nil
}

// disclaimAll undoes claimAll, for rings that have come since too.
func (r *Reader) disclaimAll() {
	r.holding.Lock()
	defer r.holding.Unlock()
	disclaim(r.all())
}

func disclaim(rings []*Ring) {
	for _, ring := range rings {
		ring.disclaim()
	}
}
