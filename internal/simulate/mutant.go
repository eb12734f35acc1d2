package simulate

import (
	"sync/atomic"
	"unsafe"

	seam "github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// Mutant is a way in which a stream could be wrong, made from outside: what the reader asks of the
// kernel is answered wrongly. A simulation that does not notice is worth nothing.
type Mutant int

// Mutants.
const (
	None       Mutant = iota
	Lying             // barriers wait for nothing
	LateClock         // barriers read the clock after the wait
	EarlyHeads        // heads are loaded before the wait
	EarlyTail         // tails move over what is undelivered
	Boasting          // a stream claims to be complete up to what its barrier has proven

	// Of ring buffers, and of several sources.
	SkippedBusy     // a record that is busy when it is seen is passed over, for good
	DiscardAsSample // what programs discard is delivered
	Heads32         // heads have 32 bits
	HiddenBusy      // a scan ends in front of what is busy, and says nothing of it
	LeftOut         // scans leave the last source out, now and then
	KeptTail        // a source that is taken out is not given back
	LateTail        // tails are not stored while the stream waits
	Unmarked        // what comes below the watermark alone is not marked late
	EarlyFree       // the rings of a reader are unmapped by Close, though they are read
	Meddling        // whoever changes sources reads the stream
	LostFlush       // a flush is not asked of the stream while sources change
	Forgotten       // a source that cannot be waited for is added all the same
	Hasty           // Drain does not wait for programs
)

// delivers reports whether what is due is delivered under the mutant, or that is how it is found.
func (m Mutant) delivers() bool { return m == None || m >= SkippedBusy }

// pretends reports whether a mutant is one of what heads the reader sees.
func (m Mutant) pretends() bool {
	return m == EarlyHeads || m == Heads32 || m == HiddenBusy || m == LeftOut || m == LateTail
}

// pretence is the words where the reader finds heads, and stores tails, in the kernel's place.
type pretence struct {
	words     [][]uint64 // of a ring's metadata page, or positions
	head_     int        // which of them is the head
	tail_     int
	pretended []*raw.Ring // the reader's
	heads     []uint64    // as remembered
}

// pretendPerf makes rings whose metadata pages are ours.
func (src *source) pretendPerf(setup seam.Setup) {
	src.head_, src.tail_ = raw.HeadWord, raw.TailWord
	for i, r := range src.perf.Rings() {
		page := make([]uint64, 4096/8)
		layout := raw.LayoutRawTime
		if setup.NoTime {
			layout = raw.LayoutRaw
		}
		// Invariant of raw.New: a page is longer than what it reads of it.
		ring, err := raw.New(unsafe.Pointer(unsafe.SliceData(page)), src.perf.Ring(i).Data(), layout)
		if err != nil {
			panic(err)
		}
		ring.SetCPU(r.CPU())
		src.pretend(page, ring)
	}
}

// pretendBufs makes ring buffers whose positions are ours.
func (src *source) pretendBufs() {
	src.head_, src.tail_ = 0, 1
	for i := range src.bufs.Len() {
		words := make([]uint64, 2)
		ring, err := raw.NewRingBuf(&words[src.tail_], &words[src.head_], src.bufs.At(i).Data())
		if err != nil {
			panic(err)
		}
		src.pretend(words, src.bufs.Fields(i, ring))
	}
}

func (src *source) pretend(words []uint64, ring *raw.Ring) {
	words[src.head_], words[src.tail_] = src.start, src.start
	src.words = append(src.words, words)
	src.pretended = append(src.pretended, ring)
	src.heads = append(src.heads, src.start)
}

// look remembers heads, as the mutant sees them.
func (src *source) look() {
	for i := range src.words {
		head := src.head(i)
		switch src.world.Mutant {
		case Heads32:
			src.heads[i] = (head + src.start) & (1<<32 - 1)
			continue
		case HiddenBusy:
			if src.bufs != nil {
				for _, o := range src.busy[i] {
					head = min(head, o.off)
				}
			}
		}
		src.heads[i] = head + src.start
	}
}

// show shows the reader what was remembered.
func (src *source) show() {
	for i, words := range src.words {
		atomic.StoreUint64(&words[src.head_], src.heads[i])
	}
}

// commit shows the kernel the reader's tails.
func (src *source) commit() {
	for i, words := range src.words {
		src.setTail(i, atomic.LoadUint64(&words[src.tail_])-src.start)
	}
}

// lookAll has the reader see the heads of all sources as they are now: with EarlyHeads, when a barrier begins.
func (w *world) lookAll() {
	for _, src := range w.sources {
		src.look()
	}
}

func (w *world) showAll() {
	for _, src := range w.sources {
		src.show()
	}
}

// fresh is lookAll and showAll for mutants for which it need not wait for a barrier.
func (w *world) fresh() {
	if !w.Mutant.pretends() || w.Mutant == EarlyHeads {
		return
	}
	for i, src := range w.sources {
		if w.Mutant == LeftOut && i == len(w.sources)-1 && w.sched.IntN(256) > 0 {
			continue
		}
		src.look()
		src.show()
	}
}
