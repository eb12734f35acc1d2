package perfbuf

import (
	"slices"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
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
func newReader(k kernel.Kernel, opts Options) *Reader {
	r := &Reader{opts: opts}
	if r.opts.Schedule == nil {
		r.opts.Schedule = FullestFirst
	}
	r.in.Init(k, engine.Options{
		Order: r.order, Name: opts.Name, TimeAt: opts.Time.Offset(), CPUAt: opts.CPU.Offset(),
		OwnTimes: opts.Time.early(), Stamped: opts.Time.stamped,
		Bell: opts.Wakeup.doorbell(), Poll: opts.Wakeup.PollInterval, Enough: opts.threshold(),
		NoBell: max(opts.Wakeup.PollInterval, defaultPollInterval),
	})
	r.opts.Name = r.in.Name()
	if interval, bell := r.in.Poll(); opts.Wakeup.doorbell() && !bell {
		r.opts.Wakeup = Wakeup{Bytes: opts.watermark(), PollInterval: interval}
	}
	for i := range r.in.Rings.Room() {
		r.rings = append(r.rings, Ring{r, i})
	}
	return r
}

// all returns all rings, those of CPUs that came online later at the end.
func (r *Reader) all() []*Ring {
	n := r.in.Rings.Len()
	rings := make([]*Ring, 0, n)
	for i := range n {
		rings = append(rings, &r.rings[i])
	}
	return rings
}

// ringBuf reports whether the rings are BPF ring buffers.
func (r *Reader) ringBuf() bool { return r.in.Rings.At(0).Raw.Layout() == raw.LayoutRingBuf }

// Rings returns the rings, in order of their CPUs, in a new slice. A CPU that comes online later
// gets a ring, unless Options.CPUs leaves it out: if you read rings one by one, call Rings again
// when Stats.Hotplug.Added has grown. A [Stream] of the Reader has it at once.
func (r *Reader) Rings() []*Ring {
	rings := r.all()
	slices.SortFunc(rings, func(a, b *Ring) int { return a.CPU() - b.CPU() })
	return rings
}

// Options returns the options in effect: defaults filled in, sizes rounded, and the CPUs that have
// rings, none for BPF ring buffers.
func (r *Reader) Options() Options {
	o := r.opts
	o.CPUs = nil
	if !r.ringBuf() { // which are of all CPUs
		for _, ring := range r.Rings() {
			o.CPUs = append(o.CPUs, ring.CPU())
		}
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

// order lets the Schedule sort the rings that a pass is to visit.
func (r *Reader) order(rings []*stream.Ring) {
	r.loads = r.loads[:0]
	for _, ring := range rings {
		used, grown := ring.Look()
		r.loads = append(r.loads, Load{CPU: ring.Raw.CPU(), Size: int(ring.Raw.Size()), Used: used, Grown: grown, ring: ring})
	}
	r.opts.Schedule(r.loads)
	for i, load := range r.loads {
		rings[i] = load.ring // nil if the Schedule put a Load of its own there
	}
}

// Ring is the ring of one CPU, returned by [Reader.Rings]. Each may have a [Ring.Stream] of its
// own, for a goroutine of its own.
type Ring struct {
	reader *Reader
	index  int
}

func (r *Ring) in() *stream.Ring { return r.reader.in.Rings.At(r.index) }

// Stream opens an unordered stream of this ring alone, to read each ring in a goroutine of its own.
// Any number of rings may have one at the same time. It returns [ErrBusy] while another Stream
// holds the ring, and os.ErrClosed after [Reader.Close], which also ends the stream.
//
// Its [Stream.Wait] follows the Reader's wakeup policy ([Wakeup]). Its only source is fixed:
// [Stream.Add], [Stream.Remove] and [Stream.Shutdown] return errors. What programs count, in lanes
// ([KindShed]) or as losses of a ring buffer, arrives in streams of whole Readers only, and in
// [Reader.Stats].
func (r *Ring) Stream() (*Stream, error) {
	s := &Stream{opts: StreamOptions{Order: Unordered()}}
	var err error
	if s.in, err = engine.NewRingStream(&s.batch.pass, &r.reader.in, r.in()); err != nil {
		return nil, err
	}
	return s, nil
}

// CPU returns the number of the ring's CPU.
func (r *Ring) CPU() int { return r.in().Raw.CPU() }

// Size returns the size of the ring's data in bytes.
func (r *Ring) Size() int { return int(r.in().Raw.Size()) }

// Used returns how many bytes of the ring have not been given back to the kernel, 0 after Close. It
// never blocks and is safe to call at any time.
func (r *Ring) Used() int {
	if r.reader.in.Gate.Enter() != nil {
		return 0
	}
	defer r.reader.in.Gate.LeaveAtOnce()
	return int(r.in().Used())
}
