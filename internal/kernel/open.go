package kernel

import (
	"errors"
	"syscall"
)

// OpenOnline opens rings as setup says, given the CPUs that are online.
func OpenOnline(o Opener, setup func(online []int) (Setup, error)) (Kernel, error) {
	for try := 1; ; try++ {
		online, err := o.Online()
		if err != nil {
			return nil, err
		}
		s, err := setup(online)
		if err != nil {
			return nil, err
		}
		k, err := o.Open(s)
		// The whole call fails if a CPU went offline after Online. If the user named that CPU,
		// setup reports it as missing on the next try.
		if !errors.Is(err, syscall.ENODEV) || try == 5 {
			return k, err
		}
	}
}

// Discard ends a Kernel whose reader was dropped without closing it.
func Discard(k Kernel) {
	if p := PartsOf(k); p.Watcher != nil {
		p.Watcher.StopWatching()
	}
	k.Unhook()
	k.Free()
}
