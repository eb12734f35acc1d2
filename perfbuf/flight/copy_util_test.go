package flight

import (
	"encoding/binary"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

func lost(time, n uint64) []uint64 { return []uint64{2 | 32<<48, 0, n, time} }

func take(r *ringtest.Overwritten, until uint64) *ringCopy {
	c := newCopy(r.Raw, nested)
	c.take()
	c.check()
	c.index(until)
	return c
}

type got struct{ time, number uint64 }

// events returns the numbers of the samples in copies. A loss counts as 1000 plus its size.
func events(copies ...*ringCopy) (all []got) {
	inOrder(copies)(func(ev raw.Event) bool {
		if ev.Kind() == raw.Lost {
			all = append(all, got{ev.Time(), 1000 + ev.Odd().Lost})
			return true
		}
		all = append(all, got{ev.Time(), binary.NativeEndian.Uint64(ev.Bytes()[4:])})
		return true
	})
	return all
}
