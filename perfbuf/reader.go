package perfbuf

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/reader"
	"github.com/ringfold/ringfold/internal/walk"
)

// Reader reads the per-CPU rings of a perf event array, or BPF ring buffers. Make one with [Open] or
// [OpenRingBuf], and end it with [Reader.Close]. The garbage collector cleans up a Reader that was not
// closed.
//
// Each [Ring] may be read by a goroutine of its own. Wait, Stats and Close may run at the same time as
// anything else. A second read of the same rings, or a second Wait, returns [ErrBusy].
type Reader struct {
	in    reader.Reader
	opts  Options
	batch Batch  // of a pass over all rings
	loads []Load // of that pass
}

// newReader makes a Reader of the rings that k has opened. opts are those in effect, but for a doorbell
// that could not be had.
func newReader(k kernel.Kernel, opts Options, ringBuf bool) *Reader {
	r := &Reader{opts: opts}
	if r.opts.Schedule == nil {
		r.opts.Schedule = FullestFirst
	}
	r.in.Init(k, reader.Options{
		Walk: walk.Options{Pass: &r.batch.pass, Order: r.order}, Add: r.add, Refused: refused,
		RingBuf: ringBuf, OwnTimes: opts.Time.early(), Stamped: opts.Time.stamped,
		Bell: opts.Wakeup.doorbell(), Poll: opts.Wakeup.PollInterval, Enough: opts.threshold(),
		NoBell: func(error) (time.Duration, uint64) {
			r.opts.Wakeup = Wakeup{Bytes: opts.watermark(), PollInterval: max(opts.Wakeup.PollInterval, defaultPollInterval)}
			return r.opts.Wakeup.PollInterval, r.opts.threshold()
		},
	})
	return r
}

func (r *Reader) begin() (*Batch, error) { return &r.batch, r.in.Walk.Begin() }

// all returns the rings that there are: those of CPUs that came later are at the end.
func (r *Reader) all() []*Ring {
	n := r.in.Walk.Len()
	rings := make([]*Ring, 0, n)
	for i := range n {
		rings = append(rings, r.in.Walk.At(i).User.(*Ring))
	}
	return rings
}

// Rings returns the rings, in order of their CPUs, in a new slice. A CPU that comes online later gets a
// ring, unless Options.CPUs leaves it out: if you read rings one by one, call Rings again when
// Stats.Hotplug.Added has grown.
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

// Done returns a channel that is closed after [Reader.Close], once the last call has returned, the counts
// are final and the rings are unmapped.
func (r *Reader) Done() <-chan struct{} { return r.in.Gate.Final() }

// Close takes the rings out of the map, so that outputs fail with -ENOENT. Events not yet read are dropped
// and counted as dropped. If a ring cannot be taken out, [Stats].CloseErr says why, and outputs to it fail
// with -EOPNOTSUPP. What a newer reader has in the map stays, from Linux 5.10 on.
//
// Call it from anywhere at any time; later calls do nothing. It does not block. A Wait ends with
// os.ErrClosed at once, and a running pass before its next event. An event in use stays valid until its
// function returns.
//
// The last call to return makes the counts of Stats final and unmaps the rings (perf_buffer__free). As
// programs may still be in an output, that takes an RCU grace period: usually some ms, at most a second.
// [Reader.Done] says when it is over. The error is always nil.
func (r *Reader) Close() error {
	r.in.Close()
	return nil
}

// ForEach calls f for every event that the rings hold now, without waiting, the fullest ring first.
// See [Fold]. If f returns an error, ForEach stops and returns it, or nil if it is [ErrStop].
func (r *Reader) ForEach(f func(Event) error) error { return forEach(r, f) }

// Run calls f for each event as it comes, ring by ring, until f returns an error, ctx is done or
// the reader is closed. It returns f's error (nil if that is [ErrStop]), context.Cause(ctx),
// os.ErrClosed, [ErrBusy] or [ErrDisplaced], never nil otherwise.
func (r *Reader) Run(ctx context.Context, f func(Event) error) error { return run(ctx, r, f) }

// Events iterates over events as they come, ring by ring, waiting in between. The error is nil with
// an event. What ends the iteration, other than the loop itself, comes alone and last:
// context.Cause(ctx), os.ErrClosed, [ErrBusy] or [ErrDisplaced].
func (r *Reader) Events(ctx context.Context) iter.Seq2[Event, error] { return stream(ctx, r) }

// Records iterates over copies of events as they come, ring by ring, waiting in between. It is the
// simplest way to read: a [Record] may be kept. Losses and corrupt memory are records too; see
// [Record.Kind]. Errors are those of [Reader.Events].
func (r *Reader) Records(ctx context.Context) iter.Seq2[Record, error] { return records(ctx, r) }

func (r *Reader) interrupt() { r.in.Kernel.Interrupt() }
