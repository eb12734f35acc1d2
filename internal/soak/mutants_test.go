//go:build linux && cgo

package main

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// tape is what one real stream delivered, with all that is held against it.
type tape struct {
	reader *perfbuf.Reader
	items  []item
	life   life
	seen   []workload.CPUCounts
}

// item is a record, or a call of Flush if seen is not nil.
type item struct {
	perfbuf.Record
	call call
}

// copy is a tape that may be changed.
func (t *tape) copy() *tape {
	c := *t
	c.items = slices.Clone(t.items)
	c.seen = slices.Clone(t.seen)
	c.life.stats.Rings = slices.Clone(t.life.stats.Rings)
	return &c
}

// play lets a ledger check the tape, and returns the violations.
func (t *tape) play() []string {
	l := newLedger(len(t.seen), rand.New(rand.NewPCG(1, 1)))
	l.ordered, l.timed = true, false
	l.markers.restart(make([]workload.CPUCounts, len(t.seen)))
	for _, it := range t.items {
		if it.call.seen != nil {
			l.markers.pending = append(l.markers.pending, it.call)
		} else {
			l.record(it.Record)
		}
	}
	return append(l.first, check(l, []life{t.life}, t.seen, true)...)
}

// record makes a tape: a stream over small rings, so that some is lost.
func recordTape(t *testing.T) *tape {
	kerneltest.Require(t)
	if _, major := kernel(); major < 6 {
		t.Skip("before Linux 6.0, not all losses are known")
	}
	p, err := loadPrograms()
	require.NoError(t, err)
	t.Cleanup(p.Close)
	c := defaults()
	c.mode, c.ringBytes, c.spill, c.load.Hogs = "slack", 8192, -1, 0
	s := &session{c: c, p: p}
	ringOptions, orderOptions := c.options()
	r, err := perfbuf.Open(p.FD(workload.Events), ringOptions)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	stream, err := r.Stream(orderOptions)
	require.NoError(t, err)
	require.NoError(t, s.start(&generation{r: r}))
	t.Cleanup(func() { s.load.Stop() })

	tape := &tape{reader: r}
	add := func(ev perfbuf.Event) error {
		tape.items = append(tape.items, item{Record: ev.Record()})
		return nil
	}
	for gaps := uint64(0); gaps < 10 || len(tape.items) < 2000; gaps = r.Stats().Total().LostRecords {
		require.NoError(t, stream.Wait(t.Context()))
		seen, err := p.Counts()
		require.NoError(t, err)
		tape.items = append(tape.items, item{call: call{perfbuf.Now(), seen}})
		require.NoError(t, stream.Flush())
		require.NoError(t, stream.ForEach(add))
		time.Sleep(5 * time.Millisecond) // or nothing is lost
	}
	require.NoError(t, p.detach())
	require.NoError(t, s.load.Stop())
	require.NoError(t, stream.Drain(t.Context(), add))
	require.NoError(t, r.Close())
	tape.seen, err = p.Counts()
	require.NoError(t, err)
	tape.life = life{stats: r.Stats(), mode: "slack", complete: true}
	require.Empty(t, workload.Agree(tape.seen))
	return tape
}

// The ledger accepts the deliveries of a real stream, and objects to each mutation of them.
func TestMutants(t *testing.T) {
	good := recordTape(t)
	require.Empty(t, good.play())
	// find returns where the first record is that f accepts, from somewhere in the middle on.
	find := func(t *testing.T, f func(i int, it *item) bool) int {
		for i := len(good.items) / 8; i < len(good.items); i++ {
			if good.items[i].call.seen == nil && f(i, &good.items[i]) {
				return i
			}
		}
		require.Fail(t, "there is none on the tape")
		return 0
	}
	kind := func(k perfbuf.Kind) func(int, *item) bool {
		return func(_ int, it *item) bool { return it.Kind == k }
	}
	sample := kind(perfbuf.KindSample)
	for name, mutate := range map[string]func(*testing.T, *tape){
		"a sample is left out": func(t *testing.T, m *tape) {
			i := find(t, sample)
			m.items = slices.Delete(m.items, i, i+1)
		},
		"a sample comes twice": func(t *testing.T, m *tape) {
			i := find(t, sample)
			m.items = slices.Insert(m.items, i, m.items[i])
		},
		"two samples are exchanged": func(t *testing.T, m *tape) {
			i := find(t, func(i int, it *item) bool {
				next := &good.items[i+1]
				return it.Kind == perfbuf.KindSample && next.Kind == perfbuf.KindSample && it.Time < next.Time
			})
			m.items[i], m.items[i+1] = m.items[i+1], m.items[i]
		},
		"a sample has another's bytes": func(t *testing.T, m *tape) {
			i := find(t, sample)
			m.items[i].Data = m.items[find(t, func(_ int, it *item) bool {
				return it.Kind == perfbuf.KindSample && !bytes.Equal(it.Data, m.items[i].Data)
			})].Data
		},
		"a byte is wrong": func(t *testing.T, m *tape) {
			i := find(t, sample)
			m.items[i].Data = slices.Clone(m.items[i].Data)
			m.items[i].Data[8]++
		},
		"a sample has another CPU": func(t *testing.T, m *tape) { m.items[find(t, sample)].CPU ^= 1 },
		"a time is wrong":          func(t *testing.T, m *tape) { m.items[find(t, sample)].Time -= uint64(time.Second) },
		"a mark is wrong":          func(t *testing.T, m *tape) { m.items[find(t, sample)].Late = true },
		"a loss is too large": func(t *testing.T, m *tape) {
			for i := range m.items { // all of them, as some may not have been delivered
				m.items[i].Lost *= 2
			}
		},
		"a marker comes too early": func(t *testing.T, m *tape) {
			i := find(t, func(i int, it *item) bool {
				return it.Kind == perfbuf.KindFlushed && good.items[i-1].call.seen == nil
			})
			marker, at := m.items[i], i
			for ; m.items[at-1].call.seen == nil || i-at < 50; at-- { // to before its events
				require.Greater(t, at, 1)
			}
			marker.Time = m.items[at-1].call.at
			m.items = slices.Insert(slices.Delete(m.items, i, i+1), at, marker)
		},
		"an output more succeeded": func(t *testing.T, m *tape) { m.seen[0].Levels[0].Written++ },
		"an output more failed":    func(t *testing.T, m *tape) { m.seen[0].Levels[0].Full++ },
		"Stats has a sample more":  func(t *testing.T, m *tape) { m.life.stats.Rings[0].Samples++ },
		"Stats has a loss less":    func(t *testing.T, m *tape) { m.life.stats.Rings[0].Lost-- },
		"Stats has one dropped":    func(t *testing.T, m *tape) { m.life.stats.Rings[0].Dropped++ },
		"Stats has one late":       func(t *testing.T, m *tape) { m.life.stats.Late++ },
	} {
		t.Run(name, func(t *testing.T) {
			m := good.copy()
			mutate(t, m)
			wrong := m.play()
			require.NotEmpty(t, wrong)
			t.Log(wrong[0])
		})
	}
	for name, mutate := range map[string]func(m *tape, loss item){
		"a loss is left out":    func(*tape, item) {},
		"a loss comes too late": func(m *tape, loss item) { m.items = append(m.items, loss) },
	} {
		t.Run(name, func(t *testing.T) {
			// What is missing may be of a level that is silent from then on. So not each loss is
			// missed.
			caught := 0
			for i, it := range good.items {
				if it.call.seen == nil && it.Kind == perfbuf.KindLost {
					m := good.copy()
					m.items = slices.Delete(m.items, i, i+1)
					it.Time = good.items[len(good.items)-1].Time
					mutate(m, it)
					caught += min(1, len(m.play()))
				}
			}
			require.NotZero(t, caught)
			t.Log(caught, "of", good.life.stats.Total().LostRecords)
		})
	}
}
