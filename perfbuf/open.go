package perfbuf

import (
	"fmt"
	"iter"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/reader"
)

func init() {
	kernel.OpenReader = func(o kernel.Opener, options any) (any, func(), error) {
		r, err := open(o, options.(Options))
		if err != nil {
			return nil, nil, err
		}
		return r, func() { r.in.Walk.CountLost(r.in.Parts.Lost) }, nil
	}
	kernel.Face.Counted = func(ev any) bool { return ev.(Event).ev.Odd().Counted }
	kernel.Face.Error = public
	kernel.Face.PayloadTime = func(t any) (int, bool) { return t.(TimeSource).at(), t.(TimeSource).stamped }
	kernel.Face.Events = func(all func(func(raw.Event) bool)) any {
		return iter.Seq[Event](func(yield func(Event) bool) { all(func(ev raw.Event) bool { return yield(Event{ev}) }) })
	}
}

// open opens rings for the selected CPUs and returns a reader of them.
func open(o kernel.Opener, want Options) (*Reader, error) {
	var opts Options // in effect
	k, err := kernel.OpenOnline(o, func(online []int) (s kernel.Setup, err error) {
		if s.CPUs, err = kernel.PickCPUs(want.CPUs, online); err != nil {
			return s, fmt.Errorf("perfbuf.Options: %w", err)
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

// start returns a reader of open rings.
func start(k kernel.Kernel, opts Options, ringBuf bool) *Reader {
	r := newReader(k, opts, ringBuf)
	reader.Start(&r.in, r)
	return r
}
