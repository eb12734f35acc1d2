// Package engine implements readers, and streams over several: it guards access to rings, waits,
// follows CPU hotplug, changes sources while others read, and ends. Package perfbuf hands out the
// events.
package engine

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/stream"
)

// Options configures a Reader.
type Options struct {
	Order func([]*stream.Ring) // see stream.RingsOptions

	Name     string // of the source of all events; "": the map's
	TimeAt   int    // where payloads hold the time and the CPU: see raw.Ring.SetFields
	CPUAt    int
	OwnTimes bool // programs take times before they output, so barriers wait for whole programs
	Stamped  bool // programs take times after they reserve, which needs no barrier

	Poll   time.Duration // see policy
	Enough uint64
	Bell   bool          // wanted
	NoBell time.Duration // Poll if there is none
}

// Reader owns a set of rings and guards access to them. Methods may be called concurrently.
type Reader struct {
	kernel  kernel.Kernel
	Parts   kernel.Parts // of it
	Gate    Gate         // guards ring memory: the last user to leave calls finish
	Rings   stream.Rings
	Entries Entries
	policy  policy
	waker   *waker
	Hotplug Follower
	Counts  stream.ReaderCounts

	source    atomic.Pointer[source]        // of the stream that holds all rings
	alone     sync.Map                      // the streams that hold one ring each
	Barrier   atomic.Pointer[grace.Barrier] // of the latest stream that had one
	Unhooking atomic.Pointer[error]         // the error of Unhook

	opts      Options
	ringBuf   bool            // its rings are BPF ring buffers
	forgotten runtime.Cleanup // if nobody calls Close
}

// Init makes r a Reader of the rings that k has opened.
func (r *Reader) Init(k kernel.Kernel, o Options) {
	r.kernel, r.Parts, r.opts = k, kernel.PartsOf(k), o
	r.Gate.Open(r.finish)
	rings := k.Rings()
	r.ringBuf = rings[0].Layout() == raw.LayoutRingBuf
	room := len(rings)
	if h := r.Parts.Hotplug; h != nil {
		room = max(room, len(h.CPUs()))
	}
	walk := stream.RingsOptions{Room: room, Order: o.Order, Flowing: r.flowed}
	if counter := r.Parts.LossCounter; counter != nil {
		walk.Losses = func(into []raw.Odd) []raw.Odd { return kernel.CountedLosses(counter, into, k.Now) }
	}
	r.Rings.Init(walk)
	if o.Name == "" {
		_, r.opts.Name = r.Parts.Map()
	}
	for _, memory := range rings {
		r.add(memory)
	}
	r.Entries.init(r, room)
	r.policy.interval, r.policy.enough = o.Poll, o.Enough
	if o.Bell {
		if err := r.noBells(); err != nil {
			r.policy.interval = o.NoBell
			r.Entries.Fail(err)
		} else {
			r.policy.bell = newDoorbell(&r.Entries, o.Poll)
		}
	}
	r.waker = newWaker(r, room)
}

// add appends a ring over this memory.
func (r *Reader) add(memory *raw.Ring) {
	memory.SetSource(r.opts.Name)
	memory.SetFields(r.opts.TimeAt, r.opts.CPUAt)
	r.Rings.Add(&stream.Ring{Raw: memory})
}

// Name returns the source of the reader's events.
func (r *Reader) Name() string { return r.opts.Name }

// Poll returns the time between polls, and whether the doorbell makes them rare.
func (r *Reader) Poll() (interval time.Duration, bell bool) {
	return r.policy.interval, r.policy.bell != nil
}

var errNoEntries = errors.New("these rings are not entries of a map, whose perf events could ring a doorbell")

// noBells says why there are no doorbells.
func (r *Reader) noBells() error {
	if r.Parts.Entries == nil {
		return errNoEntries
	}
	return r.Parts.Entries.Bells()
}

// Start follows CPU hotplug, if the kernel can. If the user drops owner without closing the reader,
// the garbage collector cleans up. The counts are lost then.
func Start[T any](r *Reader, owner *T) {
	if r.Parts.Watcher != nil {
		r.Follow()
		r.Hotplug.Start()
	}
	if d := r.Parts.Displaceable; d != nil {
		weakly := weak.Make(r) // the kernel outlives a dropped reader
		d.Watch(func(cpus []int, since uint64) {
			if r := weakly.Value(); r != nil {
				r.displaced(cpus, since)
			}
		})
	}
	r.forgotten = runtime.AddCleanup(owner, kernel.Discard, r.kernel)
}

// Follow adds rings for CPUs that come online later.
func (r *Reader) Follow() {
	full := "no room for a ring of CPU %d, which was not possible when the reader was opened: open a new one"
	if r.ringBuf {
		full = fmt.Sprintf("no room for the ring buffer with map id %%d: this reader has had %d from the map, the most that it follows: open a new one", r.Rings.Room())
	}
	r.Hotplug.Init(FollowerOptions{Kernel: &r.Parts, Gate: &r.Gate, Len: r.Rings.Len, Room: r.Rings.Room(), Add: r.add, Renew: r.Entries.renew, full: full})
}

// flowed keeps a busy ring from waking anybody.
func (r *Reader) flowed(ring int, bytes uint64) { r.Entries.flowed(ring, bytes) }

// disarmed makes a waiting reader poll by the timer: a ring has been disarmed, or cannot be.
func (r *Reader) disarmed() {
	w := r.waker
	if src := r.source.Load(); src != nil {
		w = src.stream.waker.Load()
	}
	if w != nil {
		w.disarmed(&r.policy)
	}
}

// mostSettling bounds the end of a reader if a program or a virtual CPU is stuck. It is a hundred
// times a usual grace period.
const mostSettling = time.Second

// The last user to leave calls finish. The counts become final once the programs that ran at Unhook
// have ended: nothing writes to the rings then.
func (r *Reader) finish() {
	select {
	case <-r.programsEnded():
	case <-time.After(mostSettling):
	}
	if src := r.source.Load(); src != nil { // the stream was open when the reader was closed
		src.stream.lose(src)
	}
	outputs := r.Parts.Outputs()
	for i := range r.Rings.Len() {
		ring := r.Rings.At(i)
		full := outputs.Full(ring.Raw.CPU())
		if r.Rings.CountsLosses() { // the first ring has those of all CPUs
			if full = 0; i == 0 {
				full = outputs.AllFull()
			}
		}
		ring.Settle(r.Parts.Lost, full)
	}
	r.kernel.Free()
}

// Close takes the rings out of the map, and ends all waits and passes. It does not block: the last
// user to leave the Gate unmaps the rings.
func (r *Reader) Close() {
	if !r.Gate.Close() {
		return
	}
	if src := r.source.Load(); src != nil {
		src.stream.closed(src)
	}
	r.alone.Range(func(s, _ any) bool {
		s.(*Stream).stop()
		return true
	})
	r.kernel.Interrupt()
	r.Hotplug.Stop()
	r.forgotten.Stop()
	r.Entries.close()
	err := r.kernel.Unhook()
	r.Unhooking.Store(&err)
	r.Gate.Leave()
}
