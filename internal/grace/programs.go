package grace

// ProgramsEnded waits in a goroutine for the programs that run now. The channel receives once: nil
// when all have ended, or why that is unknown. open is Open or a substitute; allow is as in
// Options. If nothing can be opened, for example after the process dropped privileges, a round of b
// serves unless b is nil.
func ProgramsEnded(open func(Options) (Provider, error), allow Set, b *Barrier) <-chan error {
	if allow == NestLevels { // NestLevels does not wait for programs; these interrupt as little
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
