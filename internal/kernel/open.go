package kernel

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// OpenOnline opens rings as setup says, given the CPUs that are online. It closes the Opener if it
// fails.
func OpenOnline(o Opener, setup func(online []int) (Setup, error)) (k Kernel, err error) {
	defer func() {
		if err != nil {
			o.Close()
		}
	}()
	for try := 1; ; try++ {
		online, err := o.Online()
		if err != nil {
			return nil, err
		}
		s, err := setup(online)
		if err != nil {
			return nil, err
		}
		k, err = o.Open(s)
		// The whole call fails if a CPU went offline after Online. If the user named that CPU,
		// setup reports it as missing on the next try.
		if !errors.Is(err, syscall.ENODEV) || try == 5 {
			return k, err
		}
	}
}

// PickCPUs returns the CPUs to read, in order: those that the user has named, or else all online.
func PickCPUs(named, online []int) ([]int, error) {
	if named == nil {
		return online, nil
	}
	if len(named) == 0 {
		return nil, errors.New("CPUs is empty: use nil for all online CPUs, or list those to read")
	}
	cpus := slices.Clone(named)
	slices.Sort(cpus)
	for i, c := range cpus {
		if !slices.Contains(online, c) {
			return nil, fmt.Errorf("CPU %d is not online: choose from %v", c, online)
		}
		if i > 0 && cpus[i-1] == c {
			return nil, fmt.Errorf("CPU %d is listed twice: list it once", c)
		}
	}
	return cpus, nil
}

// Discard ends a Kernel whose reader was dropped without closing it.
func Discard(k Kernel) {
	if p := PartsOf(k); p.Watcher != nil {
		p.Watcher.StopWatching()
	}
	k.Unhook()
	k.Free()
}
