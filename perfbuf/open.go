package perfbuf

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// OpenSource opens a Reader of rings that do not come from [Open] or [OpenRingBuf], such as those
// of a recording or a simulation, given [Options] or [RingBufOptions]. It is for packages of this
// module: others cannot name an Opener.
func OpenSource(o kernel.Opener, opts interface {
	open(kernel.Opener) (*Reader, error)
}) (*Reader, error) {
	return opts.open(o)
}

// EventOf returns a raw event as an [Event]. Like [OpenSource], it is for packages of this module.
func EventOf(ev raw.Event) Event { return Event{ev} }

// open opens rings for the selected CPUs and returns a reader of them.
func (o Options) open(from kernel.Opener) (*Reader, error) {
	var opts Options // in effect
	k, err := kernel.OpenOnline(from, func(online []int) (s kernel.Setup, err error) {
		if s.CPUs, err = kernel.PickCPUs(o.CPUs, online); err != nil {
			return s, fmt.Errorf("perfbuf.Options: %w", err)
		}
		opts, err = o.effective(len(s.CPUs))
		s.Follow, s.RingBytes, s.NoTime, s.Bell = opts.CPUs, opts.RingBytes, opts.NoTime, opts.Wakeup.doorbell()
		s.BootTime = opts.Time.boot
		s.WakeupEvents, s.WakeupBytes = opts.Wakeup.Events, opts.watermark()
		s.Lanes, s.ProgFDs = kernel.Lanes{MapFD: opts.LanesFD, Percent: opts.Lanes}, opts.ProgFDs
		return s, err
	})
	if err != nil {
		return nil, err
	}
	return start(k, opts, false), nil
}

// start returns a reader of open rings.
func start(k kernel.Kernel, opts Options, ringBuf bool) *Reader {
	r := newReader(k, opts, ringBuf)
	engine.Start(&r.in, r)
	return r
}
