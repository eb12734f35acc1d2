package perfbuf

import (
	"slices"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/stream"
)

// Reader owns the per-CPU rings of a perf event array, or BPF ring buffers. Make one with [Open] or
// [OpenRingBuf], and end it with [Reader.Close]. A [Stream] reads them: all with [Reader.Stream],
// or one with [Ring.Stream]. The garbage collector cleans up a Reader that was not closed.
//
// Methods may be called from any goroutine at any time.
type Reader struct {
	in    engine.Reader
	opts  Options
	rings []Ring // all there may ever be
	loads []Load // of an unordered pass
}

// newReader makes a Reader of the rings that k has opened. opts are those in effect, unless no
// doorbell can be opened.
func newReader(k kernel.Kernel, opts Options, ringBuf bool) *Reader {
	r := &Reader{opts: opts}
	if r.opts.Schedule == nil {
		r.opts.Schedule = FullestFirst
	}
	r.in.Init(k, engine.Options{
		Walk: stream.RingsOptions{Order: r.order}, Name: opts.Name, TimeAt: opts.Time.Offset(),
		RingBuf: ringBuf, OwnTimes: opts.Time.early(), Stamped: opts.Time.stamped,
		Bell: opts.Wakeup.doorbell(), Poll: opts.Wakeup.PollInterval, Enough: opts.threshold(),
		NoBell: max(opts.Wakeup.PollInterval, defaultPollInterval),
	})
	r.opts.Name = r.in.Name()
	if opts.Wakeup.doorbell() && r.in.Policy.Bell == nil {
		r.opts.Wakeup = Wakeup{Bytes: opts.watermark(), PollInterval: r.in.Policy.Interval}
	}
	for i := range r.in.Walk.Room() {
		r.rings = append(r.rings, Ring{r, i})
	}
	return r
}

// all returns all rings, those of CPUs that came online later at the end.
func (r *Reader) all() []*Ring {
	n := r.in.Walk.Len()
	rings := make([]*Ring, 0, n)
	for i := range n {
		rings = append(rings, &r.rings[i])
	}
	return rings
}

// Rings returns the rings, in order of their CPUs, in a new slice. A CPU that comes online later
// gets a ring, unless Options.CPUs leaves it out: if you read rings one by one, call Rings again
// when Stats.Hotplug.Added has grown. A [Stream] of the Reader has it at once.
func (r *Reader) Rings() []*Ring {
	rings := r.all()
	slices.SortFunc(rings, func(a, b *Ring) int { return a.CPU() - b.CPU() })
	return rings
}

// Options returns the options in effect: defaults filled in, sizes rounded, and the CPUs that have
// rings.
func (r *Reader) Options() Options {
	o := r.opts
	o.CPUs = nil
	for _, ring := range r.Rings() {
		o.CPUs = append(o.CPUs, ring.CPU())
	}
	return o
}

// Done returns a channel that is closed after [Reader.Close], once the last call has returned, the
// counts are final and the rings are unmapped.
func (r *Reader) Done() <-chan struct{} { return r.in.Gate.Final() }

// Close takes the rings out of the map, so that outputs fail with -ENOENT. Events not yet read are
// dropped and counted as dropped. If a ring cannot be taken out, [Stats].CloseErr says why, and
// outputs to it fail with -EOPNOTSUPP. From Linux 5.10 on, Close leaves the entries of a newer
// reader alone.
//
// Call it from anywhere at any time; later calls do nothing. It does not block. A Wait ends with
// os.ErrClosed at once, and a running pass before its next event. An event in use stays valid until
// its function returns.
//
// The last call to return makes the counts of Stats final and unmaps the rings (perf_buffer__free).
// As programs may still be in an output, that takes an RCU grace period: usually some ms, at most a
// second. [Reader.Done] says when it is over. The error is always nil.
func (r *Reader) Close() error {
	r.in.Close()
	return nil
}
