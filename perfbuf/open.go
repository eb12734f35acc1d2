package perfbuf

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// OpenSource opens a Reader of rings that do not come from [Open] or [OpenRingBuf], such as those
// of a recording or a simulation. It is for packages of this module: others cannot name an Opener.
func OpenSource(from kernel.Opener, o Options) (*Reader, error) {
	var opts Options // in effect
	k, err := kernel.OpenOnline(from, func(online []int) (s kernel.Setup, err error) {
		if from.RingBuf() {
			opts, err = o.effectiveRingBuf()
		} else if s.CPUs, err = kernel.PickCPUs(o.CPUs, online); err == nil {
			opts, err = o.effective(len(s.CPUs))
		}
		if err != nil {
			return s, fmt.Errorf("perfbuf.Options: %w", err)
		}
		s.Follow, s.RingBytes, s.NoTime, s.Bell = opts.CPUs, opts.RingBytes, opts.NoTime, opts.Wakeup.doorbell()
		s.BootTime = opts.Time.boot
		s.WakeupEvents, s.WakeupBytes = opts.Wakeup.Events, opts.watermark()
		s.Lanes, s.ProgFDs = kernel.Lanes{MapFD: opts.LanesFD, Percent: opts.Lanes}, opts.ProgFDs
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	r := newReader(k, opts)
	engine.Start(&r.in, r)
	return r, nil
}

// EventOf returns a raw event as an [Event]. Like [OpenSource], it is for packages of this module.
func EventOf(ev raw.Event) Event { return Event{ev} }
