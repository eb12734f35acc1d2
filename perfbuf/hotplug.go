package perfbuf

import "errors"

// HotplugStats counts CPUs that came online after Open.
type HotplugStats struct {
	Reopened uint64 // a CPU was back, and its ring got new perf events: the kernel closes a CPU's when it goes offline
	Added    uint64 // a CPU was new, and got a ring
	// Err is why the latest of this failed, nil if it did not, or why the list of CPUs is looked at twice
	// a second, instead of when the kernel announces a change. What failed is tried again every second, unless
	// it is a [*MapError]: the map has no entry for that CPU.
	Err error
}

// refused says whether it is the map that does not fit, and returns the public form of the error.
func refused(err error) (bool, error) {
	err = public(err)
	return errors.As(err, new(*MapError)), err
}
