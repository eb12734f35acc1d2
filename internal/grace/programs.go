package grace

// ProgramsEnded waits for the programs that are running, in a goroutine. The channel receives once: nil when all have ended,
// or why that cannot be told. open is Open, or what stands for it. allow is as in Options. b, if not nil, may do what cannot
// be opened, after the process has dropped privileges.
func ProgramsEnded(open func(Options) (Provider, error), allow Set, b *Barrier) <-chan error {
	if allow == NestLevels { // does not wait for programs; these interrupt as little
		allow = MapInMap | Membarrier
	}
	done := make(chan error, 1)
	go func() {
		p, err := open(Options{Allow: allow, Programs: true, Once: true})
		if err == nil {
			err = p.Close()
		} else if b != nil && b.WaitsForPrograms() && b.Round() == nil {
			err = nil
		}
		done <- err
	}()
	return done
}
