package simulate

import (
	"sync/atomic"
	"unsafe"

	seam "github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
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
)

// pretence is a metadata page of each ring for the reader, in the kernel's place, that shows heads
// as they were when the latest barrier began.
type pretence struct {
	*ringtest.Buffer
	pages     [][]uint64
	rings     []*raw.Ring // the kernel's
	pretended []*raw.Ring // the reader's
	heads     []uint64
}

// Words of the metadata page, see internal/raw.
const (
	headWord  = 1024 / 8
	tailWord  = 1032 / 8
	pageWords = 4096 / 8
)

// newPretence makes rings whose metadata pages are ours.
func newPretence(b *ringtest.Buffer, setup seam.Setup) *pretence {
	p := &pretence{Buffer: b, rings: b.Rings()}
	for i, r := range p.rings {
		page := make([]uint64, pageWords)
		page[headWord], page[tailWord] = p.Start, p.Start
		layout := raw.LayoutRawTime
		if setup.NoTime {
			layout = raw.LayoutRaw
		}
		// Invariant of raw.New: a page is longer than what it reads of it.
		ring, err := raw.New(unsafe.Pointer(unsafe.SliceData(page)), p.Ring(i).Data(), layout)
		if err != nil {
			panic(err)
		}
		ring.SetCPU(r.CPU())
		p.pages = append(p.pages, page)
		p.heads = append(p.heads, p.Start)
		p.pretended = append(p.pretended, ring)
	}
	return p
}

// look remembers heads.
func (p *pretence) look() {
	for i, r := range p.rings {
		p.heads[i] = r.Head()
	}
}

// show shows the reader what was remembered.
func (p *pretence) show() {
	for i, page := range p.pages {
		atomic.StoreUint64(&page[headWord], p.heads[i])
	}
}

// commit shows the kernel the reader's tails.
func (p *pretence) commit() {
	for i, page := range p.pages {
		p.Ring(i).SetTail(atomic.LoadUint64(&page[tailWord]))
	}
}
