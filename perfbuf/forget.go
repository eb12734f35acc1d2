package perfbuf

import (
	"runtime"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
)

// remains is what a Reader leaves in the kernel. None of it leads back to the Reader.
type remains struct{ kernel kernel.Kernel }

// cleanUp has a Reader that nobody can reach any more, and nobody has closed, cleaned up by the garbage
// collector. Its counts are lost with it. The poller's file is collected by itself.
func (r *Reader) cleanUp() {
	r.forgotten = runtime.AddCleanup(r, func(left remains) {
		if h, ok := left.kernel.(kernel.Hotplug); ok {
			h.StopWatching()
		}
		left.kernel.Unhook()
		left.kernel.Free()
	}, remains{r.kernel})
}

// cleanUp is the same for a stream: its barrier has a goroutine.
func (s *Ordered) cleanUp() {
	runtime.AddCleanup(s, func(b *grace.Barrier) { b.Close() }, s.barrier)
}
