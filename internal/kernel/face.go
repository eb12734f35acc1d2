package kernel

import "github.com/ringfold/ringfold/internal/raw"

// Face gives other packages, such as flight, access to perfbuf's types. Package perfbuf sets it.
var Face struct {
	Events      func(func(yield func(raw.Event) bool)) any      // makes an iter.Seq[perfbuf.Event]
	Counted     func(event any) bool                            // programs counted it
	Error       func(error) error                               // adds perfbuf's errors
	PayloadTime func(timeSource any) (offset int, stamped bool) // of a TimeSource; -1: the kernel's
}
