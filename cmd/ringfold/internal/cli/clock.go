package cli

import "github.com/ringfold/ringfold/perfbuf"

// Age returns how many ns ago that was: 0 of the future, which times that programs stamp may be in.
func Age(at uint64) uint64 { return max(perfbuf.Now(), at) - at }
