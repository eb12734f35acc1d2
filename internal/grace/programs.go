package grace

// ProgramsEnded waits in a goroutine for the programs that run now. The channel receives once: nil when all
// have ended, or why that is not known. open is Open, or stands in for it; allow is as in Options. If b is
// not nil, a round of it serves where nothing can be opened, as after the process has dropped privileges.
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
