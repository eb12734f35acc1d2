package host

import "fmt"

// PermissionError is perfbuf.PermissionError.
type PermissionError struct {
	UID      int
	Missing  []string // capabilities, for example CAP_PERFMON
	Paranoid int      // kernel.perf_event_paranoid, or -100 if unreadable
	MlockKB  int      // kernel.perf_event_mlock_kb, or -1 if unreadable
	Detail   string   // cause and fix in words
	Err      error    // the failed call and its errno
}

func (e *PermissionError) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Detail) }

// Unwrap returns the failed call's error.
func (e *PermissionError) Unwrap() error { return e.Err }
