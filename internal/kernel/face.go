package kernel

import "github.com/ringfold/ringfold/internal/raw"

// Face is for packages other than perfbuf, such as flight, which hand out its types. Package perfbuf sets it.
var Face struct {
	Events      func(func(yield func(raw.Event) bool)) any      // an iter.Seq[perfbuf.Event] of them
	Counted     func(event any) bool                            // whether a perfbuf.Event is a loss that programs have counted
	Error       func(error) error                               // one with perfbuf's errors in it
	PayloadTime func(timeSource any) (offset int, stamped bool) // of a perfbuf.TimeSource; -1: the kernel's time
}
