package raw_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// laneCPU is a CPU whose programs output in lanes, by the steps of perfbuf_output_to in
// bpf/perfbuf_output.h.
type laneCPU struct {
	w       *ringtest.Ring
	r       *raw.Ring
	taken   uint32
	written [2]uint64
	limit   uint32            // of lane 0, in words; lane 1 has none
	between func(level int)   // called between two steps
	most    func(word uint64) // called when an output of lane 0 was let in: with the words in the ring
}

const laneWords = 6 // of a record of 20 payload bytes: header, time, length

func newLaneCPU(size int, percent uint64) *laneCPU {
	c := &laneCPU{w: ringtest.New(size, raw.LayoutRawTime, 1<<32*8-640), between: func(int) {}, most: func(uint64) {}}
	c.r = c.w.Raw()
	c.limit = uint32(uint64(size) / 8 * percent / 100)
	c.taken, c.written = 12345, [2]uint64{1<<64 - 7, 99 << 32} // of an earlier reader
	c.r.SetGauge(&raw.Gauge{Taken: &c.taken, Written: []*uint64{&c.written[0], &c.written[1]}})
	return c
}

func (c *laneCPU) output(lane, level int) (written bool) {
	c.between(level)
	used := -atomic.LoadUint32(&c.taken)
	c.between(level)
	for i := range c.written {
		used += uint32(atomic.LoadUint64(&c.written[i]) >> 32)
	}
	c.between(level)
	if lane == 0 && int32(used+laneWords-c.limit) > 0 {
		return false
	}
	if lane == 0 {
		c.most((c.r.Head() - c.r.Tail()) / 8)
	}
	if c.w.Output(7, make([]byte, 20)) != nil {
		return false
	}
	c.between(level)
	atomic.AddUint64(&c.written[lane], laneWords<<32|1)
	return true
}

// used is how full the programs think the ring is, in words.
func (c *laneCPU) used() uint32 {
	used := -c.taken
	for _, w := range c.written {
		used += uint32(w >> 32)
	}
	return used
}

// Programs interrupt each other between any two steps, and the reader stores the tail there. Lane 0
// takes no more than its share, but for what has interrupted its outputs, and all of it if nothing
// does. After each store of the tail programs know how full the ring is, though they do not see
// records that report losses, and though counts wrap.
func TestGauge(t *testing.T) {
	const size, levels = 4096, 3
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		c := newLaneCPU(size, 50)
		running := 0
		store := func() {
			head, tail := c.r.Head(), c.r.Tail()
			var rec raw.Record
			for n := rnd.IntN(20); n > 0 && tail < head; n-- {
				c.r.Parse(tail, head, &rec)
				tail += rec.Size
			}
			c.r.SetTail(tail)
		}
		c.between = func(level int) {
			switch rnd.IntN(8) {
			case 0:
				if level < levels {
					running++
					c.output(rnd.IntN(2), level+1)
					running--
				}
			case 1:
				store()
			}
		}
		c.most = func(words uint64) {
			// Each level may have found the same room, and a report of losses may come first.
			require.LessOrEqual(t, words+laneWords, uint64(c.limit)+uint64(levels+1)*(laneWords+8), "seed %d", seed)
		}
		for range 400 {
			c.output(rnd.IntN(4)/3, 0)
			if rnd.IntN(8) == 0 {
				store()
				require.Equal(t, (c.r.Head()-c.r.Tail())/8, uint64(c.used()), "seed %d", seed)
				if c.r.Head()-c.r.Tail()+8*laneWords <= uint64(c.limit)*8 {
					between := c.between
					c.between = func(int) {}
					require.True(t, c.output(0, 0), "seed %d: there is room", seed)
					c.between = between
				}
			}
		}
		require.Zero(t, running)
	}
}

// Beside programs that keep outputting, each store of the tail leaves the programs with an idea
// that is off by no more than what they have output meanwhile, and at the end by nothing.
func TestGaugeConcurrent(t *testing.T) {
	c := newLaneCPU(1<<16, 50)
	var programs sync.WaitGroup
	var over atomic.Bool
	refused := 0
	programs.Go(func() {
		for n := 0; !over.Load(); n++ {
			if !c.output(n%2, 0) {
				refused++
			}
		}
	})
	for range 20_000 {
		c.r.SetTail(c.r.Head())
	}
	over.Store(true)
	programs.Wait()
	c.r.SetTail(c.r.Tail())
	require.Equal(t, (c.r.Head()-c.r.Tail())/8, uint64(c.used()), fmt.Sprint(refused, " refused"))
}
