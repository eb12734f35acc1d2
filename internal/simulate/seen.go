package simulate

import (
	"slices"

	"github.com/ringfold/ringfold/internal/grace"
	seam "github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// seen is a source's kernel as its reader sees it.
type seen struct {
	src   *source
	freed bool
}

// perf and bufs wrap their types one level deeper, so that the methods of seen win.
type (
	perf struct{ *ringtest.Buffer }
	bufs struct{ *ringtest.RingBufs }
)

// Now is the world's clock.
func (k *seen) Now() uint64 { return k.src.world.clock() }

// Grace waits for the world's programs.
func (k *seen) Grace(grace.Options) (grace.Provider, error) {
	p := ringtest.Provider(k.src.world.grace)
	return p, p.Wait()
}

// Yield lets the other actors run.
func (k *seen) Yield() bool { k.src.world.pause(); return true }

// Drive keeps the barrier. It covers nothing yet.
func (k *seen) Drive(b *grace.Barrier) { k.src.world.barrier, k.src.world.covered = b, 0 }

// seenPerf is the kernel of a perf event array.
type seenPerf struct {
	seen
	perf
}

// Open makes the rings.
func (k *seenPerf) Open(setup seam.Setup) (seam.Kernel, error) {
	if _, err := k.Buffer.Open(setup); err != nil {
		return nil, err
	}
	if src := k.src; src.world.Mutant.pretends() {
		src.pretendPerf(setup)
	}
	return k, nil
}

// Rings returns the buffer's rings, or those of a pretence.
func (k *seenPerf) Rings() []*raw.Ring {
	if k.src.pretended != nil {
		return k.src.pretended
	}
	return k.Buffer.Rings()
}

// Lost is the kernel's counter, if it has one.
func (k *seenPerf) Lost(i int) (n uint64, ok bool) {
	if k.src.world.NoCounter {
		return 0, false
	}
	k.source().losses[i].asked = true
	return k.Buffer.Lost(i)
}

// Unhook takes the rings out of the map.
func (k *seenPerf) Unhook() error {
	if k.src.world.Mutant == EarlyFree {
		for i := range k.src.rings() {
			clear(k.Ring(i).Data())
		}
	}
	return k.Buffer.Unhook()
}

// Free unmaps the rings.
func (k *seenPerf) Free() {
	k.freed = true
	k.Buffer.Free()
}

// seenBufs is the kernel of ring buffers.
type seenBufs struct {
	seen
	bufs
}

// Open makes the reading sides.
func (k *seenBufs) Open(setup seam.Setup) (seam.Kernel, error) {
	if _, err := k.RingBufs.Open(setup); err != nil {
		return nil, err
	}
	if src := k.src; src.world.Mutant.pretends() {
		src.pretendBufs()
	}
	return k, nil
}

// Rings returns the map's rings, or those of a pretence.
func (k *seenBufs) Rings() []*raw.Ring {
	if k.src.pretended != nil {
		return k.src.pretended
	}
	return k.RingBufs.Rings()
}

// Free follows the reader's last scan. The next reader gets the records still there.
func (k *seenBufs) Free() {
	src := k.src
	k.freed = true
	src.final = slices.Clone(src.committed)
	for _, r := range src.world.truth.pending {
		if r.to == src && int64(r.off-src.tail(r.ring)) >= 0 {
			src.final[r.ring]--
		}
	}
}
