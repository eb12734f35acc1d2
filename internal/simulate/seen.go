package simulate

import (
	"github.com/ringfold/ringfold/internal/grace"
	seam "github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// seen is the world as the reader sees it: its kernel.
type seen struct {
	*ringtest.Buffer
	w     *world
	rings []*raw.Ring // instead of the buffer's, if not nil
}

// Open makes the rings.
func (k *seen) Open(setup seam.Setup) (seam.Kernel, error) {
	if _, err := k.Buffer.Open(setup); err != nil {
		return nil, err
	}
	if w := k.w; w.Mutant == EarlyHeads {
		w.pretence = newPretence(k.Buffer, setup)
		k.rings = w.pretence.pretended
	}
	return k, nil
}

// Rings are the buffer's, or those of a pretence.
func (k *seen) Rings() []*raw.Ring {
	if k.rings != nil {
		return k.rings
	}
	return k.Buffer.Rings()
}

// Now is the world's clock.
func (k *seen) Now() uint64 { return k.w.clock() }

// Lost is the kernel's counter, if it has one.
func (k *seen) Lost(i int) (n uint64, ok bool) {
	if k.w.NoCounter {
		return 0, false
	}
	k.w.truth.losses[i].asked = true
	return k.Buffer.Lost(i)
}

// Grace waits for the world's programs.
func (k *seen) Grace(grace.Options) (grace.Provider, error) {
	p := ringtest.Provider(k.w.grace)
	return p, p.Wait()
}

// Yield lets others go on.
func (k *seen) Yield() { k.w.pause() }

// Drive keeps the barrier.
func (k *seen) Drive(b *grace.Barrier) { k.w.barrier = b }
