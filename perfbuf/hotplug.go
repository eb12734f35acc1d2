package perfbuf

// HotplugStats counts CPUs that came online after Open.
type HotplugStats struct {
	// CPUs that came back: their rings got new perf events, as the kernel closes those of an
	// offline CPU
	Reopened uint64
	Added    uint64 // CPUs that came for the first time, and got rings
	// Err says why the reader could not follow the latest change, or why it reads the list of CPUs
	// twice a second instead of listening to the kernel's announcements; it is nil if all is well.
	// The reader tries again every second, unless Err is a [*MapError]: the map has no entry for
	// that CPU.
	Err error
}
