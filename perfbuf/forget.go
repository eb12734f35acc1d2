package perfbuf

import (
	"runtime"

	"github.com/ringfold/ringfold/internal/grace"
)

// remains is what a Reader leaves in the kernel. None of it leads back to the Reader.
type remains struct {
	watch  watcher
	unhook func() error
	free   func()
}

// cleanUp has a Reader that nobody can reach any more, and nobody has closed, cleaned up by the garbage
// collector. Its counts are lost with it. The poller's file is collected by itself.
func (r *Reader) cleanUp() {
	r.forgotten = runtime.AddCleanup(r, func(left remains) {
		left.watch.close()
		left.unhook()
		left.free()
	}, remains{watch: r.watch, unhook: r.unhook, free: r.free})
}

// cleanUp is the same for a stream: its barrier has a goroutine.
func (s *Ordered) cleanUp() {
	runtime.AddCleanup(s, func(b *grace.Barrier) { b.Close() }, s.barrier)
}
