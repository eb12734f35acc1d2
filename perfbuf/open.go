package perfbuf

import (
	"errors"
	"syscall"

	"github.com/ringfold/ringfold/internal/kernel"
)

func init() {
	kernel.OpenReader = func(o kernel.Opener, options any) (any, func(), error) {
		r, err := open(o, options.(Options))
		if err != nil {
			return nil, nil, err
		}
		return r, r.countUnreported, nil
	}
}

// open opens rings, and makes a reader of them.
func open(o kernel.Opener, want Options) (*Reader, error) {
	k, opts, err := openRings(o, want)
	if err != nil {
		o.Close()
		return nil, public(err)
	}
	r := newReader(k, opts)
	if h, ok := k.(kernel.Hotplug); ok {
		r.pluggable(h)
		r.hotplug.Start()
	}
	r.cleanUp()
	return r, nil
}

// openRings opens rings for the CPUs that are to be read. It returns the options in effect.
func openRings(o kernel.Opener, want Options) (k kernel.Kernel, opts Options, err error) {
	for try := 1; ; try++ {
		online, err := o.Online()
		if err != nil {
			return nil, opts, err
		}
		cpus, err := want.pick(online)
		if err != nil {
			return nil, opts, err
		}
		opts, err = want.effective(len(cpus))
		if err != nil {
			return nil, opts, err
		}
		k, err = o.Open(kernel.Setup{
			CPUs: cpus, Follow: opts.CPUs, RingBytes: opts.RingBytes, NoTime: opts.NoTime, Bell: opts.Wakeup.doorbell(),
			WakeupEvents: opts.Wakeup.Events, WakeupBytes: opts.watermark(), Outputs: kernel.OutputCounts(opts.Outputs),
		})
		// A CPU that has gone offline since the list was read fails the whole call. One that the user has
		// named is then found missing by pick.
		if !errors.Is(err, syscall.ENODEV) || try == 5 {
			return k, opts, err
		}
	}
}
