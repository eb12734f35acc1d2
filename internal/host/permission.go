package host

import "fmt"

// PermissionError becomes perfbuf.PermissionError.
type PermissionError struct {
	UID      int
	Missing  []string
	Paranoid int
	MlockKB  int
	Detail   string
	Err      error
}

func (e *PermissionError) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Detail) }

// Unwrap returns the failed call's error.
func (e *PermissionError) Unwrap() error { return e.Err }
