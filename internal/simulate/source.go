package simulate

import (
	"fmt"
	"slices"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// Source is a map that programs output to, and its reader. The zero Source is a perf event array.
type Source struct {
	RingBufs int  // how many BPF ring buffers: 1 is shared, more are shards by CPU
	Stamped  bool // programs read the clock after they reserve, and the reader relies on that
	Claimed  bool // the reader relies on that, and it is false
	Sleepers int  // how many sleepable programs output to it, too
}

// source is a Source at work. Offsets in each ring count from 0.
type source struct {
	Source
	world  *world
	start  uint64 // of counters
	perf   *ringtest.Buffer
	bufs   *ringtest.RingBufs // or this one
	reader *perfbuf.Reader
	pretence

	losses []losses // by CPU
	last   []place  // last delivered event of each ring

	// For ring buffers.
	busy      [][]*output
	committed []uint64
	again     []uint64  // delivered again after the stream let the ring go
	kept      []*record // delivered, not yet given back to the kernel
	final     []uint64  // committed up to the reader's last scan, except records still there

	// For sources that come and go.
	out     bool          // it is not in the stream
	closed  bool          // its reader is closed; it is out or leaving
	retired bool          // and its accounts are settled
	past    perfbuf.Stats // of earlier readers
	since   uint64        // the stream's progress at Add: older records may be late
	dropped []uint64      // of each ring, when it left the stream
	leaves  bool          // it has ever been out
	scans   [2]uint64
	silent  []uint64 // losses that no record reported, in rings that are gone
}

func (w *world) newSource(s Source, array int) *source {
	src := &source{Source: s, world: w, start: w.Start, losses: make([]losses, w.CPUs)}
	n := w.CPUs
	if s.RingBufs > 0 {
		n = s.RingBufs
		src.bufs = w.kernel.NewRingBufs(n, w.RingBytes, w.Start)
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

// open makes the reader, and new rings for an array, whose rings belong to the reader.
func (src *source) open() (err error) {
	w := src.world
	src.closed, src.retired = false, false
	if src.perf != nil {
		array := src.perf.Array
		src.perf = w.kernel.NewBuffer()
		src.perf.Start, src.perf.Array = w.Start, array
	}
	if src.bufs != nil {
		o := perfbuf.Options{Name: src.name(), Time: perfbuf.PayloadTime(workload.TimeOffset), Wakeup: perfbuf.Wakeup{PollInterval: 2 * longest}}
		if src.Stamped || src.Claimed {
			o.Time = perfbuf.StampedTime(workload.TimeOffset)
		}
		src.reader, err = perfbuf.OpenSource(&seenBufs{seen{src: src}, bufs{src.bufs}}, o)
	} else {
		o := perfbuf.Options{Name: src.name(), RingBytes: w.RingBytes, NoTime: w.NoTime, Wakeup: perfbuf.Wakeup{Events: 1}}
		if w.Payload {
			o.Time = perfbuf.PayloadTime(workload.TimeOffset)
		}
		src.reader, err = perfbuf.OpenSource(&seenPerf{seen{src: src}, perf{src.perf}}, o)
	}
	return err
}

// name tells the source's events from those of others.
func (src *source) name() string { return fmt.Sprint(slices.Index(src.world.sources, src)) }

// proven reports whether the source relies on barriers.
func (src *source) proven() bool { return !src.Stamped && !src.Claimed }

// rings returns the number of rings.
func (src *source) rings() int { return len(src.last) }

// tail is the position up to which the reader has given a ring back.
func (src *source) tail(i int) uint64 {
	if src.bufs != nil {
		return src.bufs.At(i).Tail() - src.start
	}
	return src.perf.Ring(i).Tail() - src.start
}

// head is the position up to which the kernel has published.
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

// cpu is the CPU that the record's event must name.
func (src *source) cpu(r *record) int {
	switch {
	case src.perf != nil:
		return r.CPU
	case src.RingBufs > 1:
		return r.ring
	}
	return -1
}

// poison overwrites the bytes that the reader has given back.
func (src *source) poison() {
	if src.perf != nil {
		src.perf.Poison()
		return
	}
	for i := range src.bufs.Len() {
		src.bufs.At(i).Poison()
	}
}

// finished removes an output from the busy ones, before its commit or discard.
func (src *source) finished(o *output) {
	src.busy[o.ring] = slices.DeleteFunc(src.busy[o.ring], func(other *output) bool { return other == o })
}

// scannedBefore is the start of the last pass but one: the stream has scanned the rings twice
// since.
func (src *source) scannedBefore() uint64 { return src.scans[0] }

// due is the time up to which a pass that begins now must deliver everything, barriers aside. That
// is the scan before it, or, if a record is busy, the scan before the one that the record fell
// into.
func (src *source) due() uint64 {
	now := src.scans[0] // a scan misses records reserved during it
	for _, ring := range src.busy {
		for _, o := range ring {
			now = min(now, o.scanned)
		}
	}
	return now - min(now, grace.DefaultGuard+1)
}

// excused reports whether a record may be late, or missing below the watermark.
func (r *record) excused() bool {
	return r.to.out || r.key <= r.to.since || r.sleepy && !r.to.Stamped
}

// delivered keeps a record while the reader may deliver it again.
func (src *source) delivered(t *truth, r *record) {
	if src.bufs == nil {
		t.reuse(r)
		return
	}
	if src.kept = append(src.kept, r); len(src.kept)%64 == 0 {
		src.forget(t)
	}
}

// forget drops records that the reader has given back.
func (src *source) forget(t *truth) {
	src.kept = slices.DeleteFunc(src.kept, func(r *record) bool {
		back := int64(r.off-src.tail(r.ring)) < 0
		if back {
			t.reuse(r)
		}
		return back
	})
}

// gone settles accounts when the source has left the stream. Undelivered records before the tails
// are dropped. Records delivered from behind a busy one are delivered again.
func (src *source) gone(t *truth) {
	for _, r := range t.pending {
		if r.to == src && int64(r.off-src.tail(r.ring)) < 0 {
			src.dropped[r.ring]++
			delete(t.pending, r.Seq)
			t.reuse(r)
		}
	}
	src.forget(t)
	for _, r := range src.kept {
		src.again[r.ring]++
		t.pending[r.Seq] = r
	}
	src.kept = nil
	clear(src.last)
}

// retire settles accounts when the reader is closed. Records left in rings of its own are dropped.
func (src *source) retire() {
	<-src.reader.Done()
	if src.perf != nil {
		for _, r := range src.world.truth.pending {
			if r.to == src {
				src.dropped[r.ring]++
				delete(src.world.truth.pending, r.Seq)
				src.world.truth.reuse(r)
			}
		}
		for i := range src.silent {
			src.silent[i] += src.perf.Ring(i).Pending()
		}
	}
	src.past, src.retired = src.stats(), true
}

// stats adds the reader's statistics to those of its predecessors.
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

// sum returns the sum of counts.
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
