package simulate

import (
	"fmt"
	"slices"

	"github.com/ringfold/ringfold/internal/grace"
	seam "github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
)

// Source is a map that programs output to, and a reader of it: a perf event array, if nothing is set.
type Source struct {
	RingBufs int  // so many BPF ring buffers: 1 is a shared one, more are shards by CPU
	Stamped  bool // programs take their time after they have reserved, and the reader is told so
	Claimed  bool // the reader is told so, and it is not true
	Sleepers int  // so many programs that may sleep output to it, too
}

// source is one, at work. Its records of each ring are counted from 0 on.
type source struct {
	Source
	world  *world
	start  uint64 // of counters
	perf   *ringtest.Buffer
	bufs   *ringtest.RingBufs // or this one
	reader *perfbuf.Reader
	pretence

	losses []losses // by CPU
	last   []place  // of what was delivered of each ring

	// Of ring buffers.
	busy      [][]*output
	committed []uint64
	again     []uint64  // came once more, as a stream has let the ring go
	kept      []*record // delivered and not given back to the kernel
	final     []uint64  // committed when the reader had its last look, but for what is still there

	// Of streams that come and go.
	out     bool          // it is not in the stream
	closed  bool          // its reader is, and it is out or goes
	retired bool          // that is over
	past    perfbuf.Stats // of readers before
	since   uint64        // it came in when the stream had got so far: what is older may be late
	dropped []uint64      // of each ring, when it was taken out
	leaves  bool          // it ever was
	scans   [2]uint64
	silent  []uint64 // losses in rings that are gone which no record has reported
}

func (w *world) newSource(s Source, array int) *source {
	src := &source{Source: s, world: w, start: w.Start, losses: make([]losses, w.CPUs)}
	n := w.CPUs
	if s.RingBufs > 0 {
		n = s.RingBufs
		src.bufs = w.kernel.NewRingBufs(n, w.RingBytes, w.Start, timeOffset)
	} else {
		src.perf = w.kernel.NewBuffer()
		src.perf.Start, src.perf.Array = w.Start, array
	}
	for _, counts := range []*[]uint64{&src.committed, &src.again, &src.dropped, &src.silent} {
		*counts = make([]uint64, n)
	}
	src.last, src.busy = make([]place, n), make([][]*output, n)
	for range s.Sleepers {
		w.kernel.sleep = append(w.kernel.sleep, &sleeper{to: src})
	}
	return src
}

// open makes the reader, and new rings where they are a reader's own.
func (src *source) open() (err error) {
	w := src.world
	src.closed, src.retired = false, false
	if src.perf != nil {
		array := src.perf.Array
		src.perf = w.kernel.NewBuffer()
		src.perf.Start, src.perf.Array = w.Start, array
	}
	var r any
	if src.bufs != nil {
		o := perfbuf.RingBufOptions{Time: perfbuf.PayloadTime(timeOffset), PollInterval: 2 * longest}
		if src.Stamped || src.Claimed {
			o.Time = perfbuf.StampedTime(timeOffset)
		}
		r, err = seam.OpenRingBufReader(&seenBufs{seen{src: src}, bufs{src.bufs}}, o)
	} else {
		o := perfbuf.Options{RingBytes: w.RingBytes, NoTime: w.NoTime, Wakeup: perfbuf.Wakeup{Events: 1}}
		if w.Payload {
			o.Time = perfbuf.PayloadTime(timeOffset)
		}
		r, _, err = seam.OpenReader(&seenPerf{seen{src: src}, perf{src.perf}}, o)
	}
	if err == nil {
		src.reader = r.(*perfbuf.Reader)
	}
	return err
}

// proven reports whether a barrier says what is due of it.
func (src *source) proven() bool { return !src.Stamped && !src.Claimed }

// rings is how many it has.
func (src *source) rings() int { return len(src.last) }

// tail is how far the reader has given a ring back.
func (src *source) tail(i int) uint64 {
	if src.bufs != nil {
		return src.bufs.At(i).Tail() - src.start
	}
	return src.perf.Ring(i).Tail() - src.start
}

// head is how far the kernel has got, as it has published.
func (src *source) head(i int) uint64 {
	if src.bufs != nil {
		return src.bufs.At(i).Head() - src.start
	}
	return src.perf.Rings()[i].Head() - src.start
}

// setTail moves a ring's tail, as no reader does.
func (src *source) setTail(i int, to uint64) {
	if src.bufs != nil {
		src.bufs.At(i).SetTail(to + src.start)
		return
	}
	src.perf.Ring(i).SetTail(to + src.start)
}

// cpu is that of a record's event.
func (src *source) cpu(r *record) int {
	switch {
	case src.perf != nil:
		return r.cpu
	case src.RingBufs > 1:
		return r.ring
	}
	return -1
}

// poison makes what was given back unreadable.
func (src *source) poison() {
	if src.perf != nil {
		src.perf.Poison()
		return
	}
	for i := range src.bufs.Len() {
		src.bufs.At(i).Poison()
	}
}

// finished says that an output is to be committed, or discarded.
func (src *source) finished(o *output) {
	src.busy[o.ring] = slices.DeleteFunc(src.busy[o.ring], func(other *output) bool { return other == o })
}

// scannedBefore is a time from which the stream has scanned the rings since, and again: two passes ago.
func (src *source) scannedBefore() uint64 { return src.scans[0] }

// due is the time up to which a pass that begins now has to deliver everything, as far as no barrier is concerned: up to the scan
// before, or the one before that in which a record was reserved that is busy.
func (src *source) due() uint64 {
	now := src.scans[0] // what is reserved before this scan comes to the ring's head, and busy, reaches back to the scan before
	for _, ring := range src.busy {
		for _, o := range ring {
			now = min(now, o.scanned)
		}
	}
	return now - min(now, grace.DefaultGuard+1)
}

// excused reports whether a record may be late, or keep out of a claim to be complete.
func (r *record) excused() bool {
	return r.to.out || r.key <= r.to.since || r.sleepy && !r.to.Stamped
}

// delivered keeps a record for as long as it may come again.
func (src *source) delivered(t *truth, r *record) {
	if src.bufs == nil {
		t.reuse(r)
		return
	}
	if src.kept = append(src.kept, r); len(src.kept)%64 == 0 {
		src.forget(t)
	}
}

// forget forgets what the reader has given back.
func (src *source) forget(t *truth) {
	src.kept = slices.DeleteFunc(src.kept, func(r *record) bool {
		back := int64(r.off-src.tail(r.ring)) < 0
		if back {
			t.reuse(r)
		}
		return back
	})
}

// gone settles accounts when the source has been taken out of the stream: what lies before the tails is dropped. What was delivered
// behind a busy record comes again.
func (src *source) gone(t *truth) {
	for _, r := range t.pending {
		if r.to == src && int64(r.off-src.tail(r.ring)) < 0 {
			src.dropped[r.ring]++
			delete(t.pending, r.id)
			t.reuse(r)
		}
	}
	src.forget(t)
	for _, r := range src.kept {
		src.again[r.ring]++
		t.pending[r.id] = r
	}
	src.kept = nil
	clear(src.last)
}

// retire settles accounts when the reader is closed: what was left in rings of its own is dropped.
func (src *source) retire() {
	<-src.reader.Done()
	if src.perf != nil {
		for _, r := range src.world.truth.pending {
			if r.to == src {
				src.dropped[r.ring]++
				delete(src.world.truth.pending, r.id)
				src.world.truth.reuse(r)
			}
		}
		for i := range src.silent {
			src.silent[i] += src.perf.Ring(i).Pending()
		}
	}
	src.past, src.retired = src.stats(), true
}

// stats sums the reader's up with those of its predecessors.
func (src *source) stats() perfbuf.Stats {
	s := src.past
	if src.retired {
		return s
	}
	now := src.reader.Stats()
	s.Late += now.Late
	s.Inversions += now.Inversions
	s.SpilledBytes += now.SpilledBytes
	s.SpillRefused += now.SpillRefused
	s.Rings = slices.Clone(s.Rings)
	if s.Rings == nil {
		s.Rings = make([]perfbuf.RingStats, len(now.Rings))
	}
	for i, r := range now.Rings {
		sum := &s.Rings[i]
		sum.Samples += r.Samples
		sum.Dropped += r.Dropped
		sum.Lost += r.Lost
		sum.LostRecords += r.LostRecords
		sum.Bytes += r.Bytes
		sum.TailStores += r.TailStores
		sum.Corrupt += r.Corrupt
		sum.Unknown += r.Unknown
		sum.Shared += r.Shared
	}
	return s
}

// sum of counts.
func sum(counts []uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func (src *source) String() string {
	switch {
	case src.perf != nil:
		return fmt.Sprintf("array %d", src.perf.Array)
	case src.Stamped:
		return fmt.Sprintf("%d stamped ring buffers", src.RingBufs)
	}
	return fmt.Sprintf("%d ring buffers", src.RingBufs)
}
