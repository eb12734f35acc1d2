package engine

import (
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// alone is a group that lets a recording go on by itself, as perfdata's does.
type alone struct {
	kernel.Group
	removed func()
}

func (a alone) Remove(kernel.Kernel) { a.removed() }
func (a alone) Interrupt()           {}

// A recording that is taken out amid a pass goes on without the others' events. From then on it
// does not say what time it is, not even to whoever has begun to ask it.
func TestClockOfARemovedSource(t *testing.T) {
	const ahead = 1000
	for name, asks := range map[string]bool{"before it is asked": false, "while it is asked": true} {
		t.Run(name, func(t *testing.T) {
			a, b := newFake(1, Options{}), newFake(1, Options{})
			s := &Stream{clock: &clock{}, used: true}
			for _, f := range []*fake{a, b} {
				f.source.Store(f.parts[0])
				s.wanted = append(s.wanted, f.parts[0])
			}
			s.sources = s.wanted
			s.clock.set(a.kernel)
			now := uint64(1)
			b.kernel.Clock = func() uint64 { return 2 }
			s.group = alone{removed: func() { now = ahead }}
			remove := func() { require.NoError(t, s.Remove(&a.Reader)) }
			a.kernel.Clock = func() uint64 {
				if asks {
					remove()
				}
				return now
			}
			if !asks {
				require.EqualValues(t, 1, s.clock.now())
				remove()
			}
			require.EqualValues(t, 2, s.clock.now())
		})
	}
}
