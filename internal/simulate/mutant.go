package simulate

import (
	"sync/atomic"
	"unsafe"

	seam "github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// Mutant is a bug injected from outside: the kernel answers the reader wrongly. A simulation that
// does not notice it is worth nothing.
type Mutant int

// Mutants.
const (
	None       Mutant = iota
	Lying             // barriers wait for nothing
	LateClock         // barriers read the clock after the wait
	EarlyHeads        // heads are loaded before the wait
	EarlyTail         // tails move past undelivered records
	Boasting          // a stream claims its barrier's watermark

	// Bugs with ring buffers and several sources.
	SkippedBusy     // scans skip busy records for good
	DiscardAsSample // discarded records are delivered
	Heads32         // heads have 32 bits
	HiddenBusy      // a scan stops before a busy record without reporting it
	LeftOut         // most scans leave out the last source
	KeptTail        // Remove does not give the source's records back
	LateTail        // tails are not stored while the stream waits
	Unmarked        // an event below only the watermark is not marked late
	EarlyFree       // Close unmaps rings that are still being read
	Meddling        // the goroutine that changes sources also reads the stream
	LostFlush       // a flush gets lost while sources change
	Forgotten       // Add succeeds for a source that cannot be waited for
	Hasty           // Drain does not wait for programs
)

// delivers reports whether the stream under this mutant must deliver due events on time.
func (m Mutant) delivers() bool { return m == None || m >= SkippedBusy }

// pretends reports whether the mutant shows the reader heads and tails of its own.
func (m Mutant) pretends() bool {
	return m == EarlyHeads || m == Heads32 || m == HiddenBusy || m == LeftOut || m == LateTail
}

// pretence holds the words that replace the kernel's: the reader finds heads there and stores
// tails.
type pretence struct {
	words     [][]uint64 // metadata page or positions of each ring
	head_     int        // index of the head
	tail_     int
	pretended []*raw.Ring // the reader's rings
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
		// Cannot fail: raw.New needs less than a page.
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
		src.pretend(words, src.bufs.Shard(i, ring))
	}
}

func (src *source) pretend(words []uint64, ring *raw.Ring) {
	words[src.head_], words[src.tail_] = src.start, src.start
	src.words = append(src.words, words)
	src.pretended = append(src.pretended, ring)
	src.heads = append(src.heads, src.start)
}

// look remembers the heads as the mutant reports them.
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

// show shows the reader the remembered heads.
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

// lookAll remembers the heads of all sources. With EarlyHeads that happens when a barrier begins.
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

// fresh does lookAll and showAll at once for mutants that do not wait for a barrier.
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
