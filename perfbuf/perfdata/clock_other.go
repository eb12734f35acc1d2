//go:build !linux

package perfdata

// monotonic is not known: events come from elsewhere.
func monotonic() uint64 { return 0 }
