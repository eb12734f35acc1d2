package perfbuf

import (
	"context"
	"iter"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/gate"
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/hotplug"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/wake"
	"github.com/ringfold/ringfold/internal/walk"
)

// Reader reads the per-CPU rings of a perf event array. Make one with [Open] and end it with
// [Reader.Close]. The garbage collector cleans up a Reader that was not closed.
//
// Different [Ring]s may be read concurrently. Wait, Stats and Close may run at the same time as anything
// else. A second read of the same rings, or a second Wait, returns [ErrBusy].
type Reader struct {
	kernel  kernel.Kernel
	opts    Options
	rings   []*Ring   // with room for those of CPUs that come later: see all
	gate    gate.Gate // of ring memory: when the last has left, counts are made final and rings unmapped
	walk    walk.Rings
	batch   Batch  // of a pass over all rings
	loads   []Load // of that pass
	hotplug hotplug.Follower
	stepped kernel.Stepped // nil: this is no simulation
	ringBuf bool           // the rings are BPF ring buffers

	entries *wake.Entries
	policy  wake.Policy
	waker   *wake.Waker

	stream  atomic.Pointer[Ordered]       // which holds the rings
	barrier atomic.Pointer[grace.Barrier] // of the latest stream that had one

	forgotten runtime.Cleanup // if nobody calls Close

	counts readerCounts
}

// newReader makes a Reader of the rings that k has opened. opts are those in effect, but for a doorbell
// that could not be had.
func newReader(k kernel.Kernel, opts Options, ringBuf bool) *Reader {
	rings := k.Rings()
	r := &Reader{kernel: k, opts: opts, ringBuf: ringBuf, rings: make([]*Ring, max(len(k.CPUs()), len(rings)))}
	r.stepped, _ = k.(kernel.Stepped)
	r.gate.Open(r.finish)
	o := walk.Options{Gate: &r.gate, Room: len(r.rings), Pass: &r.batch.pass, Order: r.order, Flowing: r.flowed}
	if counter, ok := k.(kernel.LossCounter); ok {
		o.Losses = func(into []raw.Odd) []raw.Odd { return kernel.CountedLosses(counter, into, k.Now) }
	}
	r.walk.Init(o)
	for _, memory := range rings {
		r.add(memory)
	}
	if r.opts.Schedule == nil {
		r.opts.Schedule = FullestFirst()
	}
	r.entries = wake.NewEntries(len(r.rings), r.walk.Count(), k.Set, r.disarmed)
	var bell *wake.Doorbell
	if w := r.opts.Wakeup; w.doorbell() {
		if err := k.Bells(); err != nil {
			r.opts.Wakeup = Wakeup{Bytes: opts.watermark(), PollInterval: max(w.PollInterval, defaultPollInterval)}
			r.entries.Fail(err)
		} else {
			bell = wake.NewDoorbell(r.entries, w.PollInterval)
		}
	}
	r.waker = wake.New(k, &r.walk, len(r.rings), &r.policy)
	r.setPolicy(bell)
	return r
}

// setPolicy makes waits end as the options say, and with a doorbell if there is one.
func (r *Reader) setPolicy(bell *wake.Doorbell) {
	r.policy.Bell, r.policy.Interval, r.policy.Enough = bell, r.opts.Wakeup.PollInterval, r.opts.threshold()
}

// disarmed makes whoever waits look at the rings by the timer.
func (r *Reader) disarmed() {
	w := r.waker
	if s := r.stream.Load(); s != nil {
		w = s.waker.Load()
	}
	if w != nil {
		w.Disarmed(&r.policy)
	}
}

// flowed keeps a ring of which many events come from waking anybody.
func (r *Reader) flowed(ring int, bytes uint64) { r.entries.Flowed(ring, bytes) }

func (r *Reader) begin() (*Batch, error) { return &r.batch, r.walk.Begin() }

func (r *Reader) enter() error { return r.gate.Enter() }
func (r *Reader) leave()       { r.gate.Leave() }

// mostSettling bounds how long Close takes where a program, or a virtual CPU, does not get on: it
// takes a grace period a hundred times as long as usual.
const mostSettling = time.Second

// finish is called by who leaves last. The counts become final once the programs that were running at the time of Unhook
// have ended: nothing is written to the rings then.
func (r *Reader) finish() {
	select {
	case <-r.programsEnded():
	case <-time.After(mostSettling):
	}
	if s := r.stream.Load(); s != nil { // was open when the reader was closed
		s.lose(r)
	}
	outputs := kernel.CountedOutputs(r.kernel)
	for _, ring := range r.all() {
		ring.walk.Settle(ring.raw.Tail(), r.kernel.Lost, outputs.Full(ring.CPU()))
	}
	r.kernel.Free()
}

// Rings returns the rings, in order of their CPUs. The slice is the caller's. A CPU that comes online
// later gets a ring, unless Options.CPUs leaves it out: if you read rings one by one, call Rings again
// when Stats.Hotplug.Added has grown.
func (r *Reader) Rings() []*Ring { return byCPU(r.all()) }

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
func (r *Reader) Done() <-chan struct{} { return r.gate.Final() }

// Close takes the rings out of the map, so that outputs fail with -ENOENT. Events not yet read are dropped
// and counted as dropped. If a ring cannot be taken out, [Stats].CloseErr says why, and outputs to it fail
// with -EOPNOTSUPP.
//
// Call it from anywhere at any time; later calls do nothing. It does not block. A Wait ends with
// os.ErrClosed at once, and a running pass before its next event. An event in use stays valid until its
// function returns.
//
// The last call to return makes the counts of Stats final and unmaps the rings (perf_buffer__free). As
// programs may still be in an output, that takes an RCU grace period: usually some ms, at most a second.
// [Reader.Done] says when it is over. The error is always nil.
func (r *Reader) Close() error {
	if r.gate.Close() {
		if s := r.stream.Load(); s != nil {
			s.stop()
		}
		r.kernel.Interrupt()
		r.hotplug.Stop()
		r.forgotten.Stop()
		r.entries.Close()
		err := r.kernel.Unhook()
		r.counts.unhooking.Store(&err)
		r.leave()
	}
	return nil
}

// ForEach calls f for every event that the rings hold now, without waiting, the fullest ring first.
// See [Fold]. If f returns an error, ForEach stops and returns it, or nil if it is [ErrStop].
func (r *Reader) ForEach(f func(Event) error) error { return forEach(r, f) }

// Run calls f for each event as it comes, ring by ring, until f returns an error, ctx is done or
// the reader is closed. It returns f's error (nil if that is [ErrStop]), context.Cause(ctx),
// os.ErrClosed or [ErrBusy], never nil otherwise.
func (r *Reader) Run(ctx context.Context, f func(Event) error) error { return run(ctx, r, f) }

// Events iterates over events as they come, ring by ring, waiting in between. The error is nil with
// an event. What ends the iteration, other than the loop itself, comes alone and last:
// context.Cause(ctx), os.ErrClosed or [ErrBusy].
func (r *Reader) Events(ctx context.Context) iter.Seq2[Event, error] { return stream(ctx, r) }

// Records iterates over copies of events as they come, ring by ring, waiting in between. It is the
// simplest way to read: a [Record] may be kept. Losses and corrupt memory are records too; see
// [Record.Kind]. Errors are those of [Reader.Events].
func (r *Reader) Records(ctx context.Context) iter.Seq2[Record, error] { return records(ctx, r) }

func (r *Reader) interrupt() { r.kernel.Interrupt() }
