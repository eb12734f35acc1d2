package perfbuf

import (
	"runtime"

	"github.com/ringfold/ringfold/internal/kernel"
)

func init() {
	kernel.OpenReader = func(o kernel.Opener, options any) (any, func(), error) {
		r, err := open(o, options.(Options))
		if err != nil {
			return nil, nil, err
		}
		return r, func() { r.walk.CountLost(r.kernel.Lost) }, nil
	}
}

// open opens rings for the CPUs that are to be read, and makes a reader of them.
func open(o kernel.Opener, want Options) (*Reader, error) {
	var opts Options // in effect
	k, err := kernel.OpenOnline(o, func(online []int) (s kernel.Setup, err error) {
		if s.CPUs, err = want.pick(online); err != nil {
			return s, err
		}
		opts, err = want.effective(len(s.CPUs))
		s.Follow, s.RingBytes, s.NoTime, s.Bell = opts.CPUs, opts.RingBytes, opts.NoTime, opts.Wakeup.doorbell()
		s.WakeupEvents, s.WakeupBytes, s.Outputs = opts.Wakeup.Events, opts.watermark(), kernel.OutputCounts(opts.Outputs)
		return s, err
	})
	if err != nil {
		o.Close()
		return nil, public(err)
	}
	return start(k, opts, false), nil
}

// start makes a reader of rings that are open.
func start(k kernel.Kernel, opts Options, ringBuf bool) *Reader {
	r := newReader(k, opts, ringBuf)
	if h, ok := k.(kernel.Hotplug); ok {
		r.pluggable(h)
		r.hotplug.Start()
	}
	r.cleanUp()
	return r
}

// cleanUp has a Reader that nobody can reach any more, and nobody has closed, cleaned up by the garbage
// collector. Its counts are lost with it. The poller's file is collected by itself.
func (r *Reader) cleanUp() { r.forgotten = runtime.AddCleanup(r, kernel.Discard, r.kernel) }
