package flight

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// producers are programs that interrupt each other and output to a ring buffer that they overwrite.
// They stop after each store. A payload begins with its time.
type producers struct {
	*rand.Rand
	ring    *ringtest.RingBuf
	clock   uint64
	running []*program
	ended   map[uint64]bool // by the time: whether it submitted a record
	store   func() (struct{}, bool)
	quit    bool
	sleep   int // the larger, the rarer programs sleep, and the longer
}

type program struct {
	time    uint64
	payload []byte
	record  *ringtest.Record // nil: not reserved yet
	written int
	slept   bool // once it had reserved, or will
}

const mostPrograms = 3 // at once

func startProducers(t *testing.T, seed uint64) *producers {
	p := &producers{Rand: rand.New(rand.NewPCG(seed, 1)), ring: ringtest.NewRingBuf(4096, 0), ended: map[uint64]bool{}, sleep: [...]int{60, 300}[seed%2]}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		p.ring.Overwrite(func() { p.quit = p.quit || !yield(struct{}{}) })
		for !p.quit {
			p.act()
		}
	})
	p.store = next
	next() // sets Overwrite
	t.Cleanup(stop)
	return p
}

// act has one program do something.
func (p *producers) act() {
	if len(p.running) == 0 || len(p.running) < mostPrograms && p.IntN(4) == 0 {
		p.clock++
		p.running = append(p.running, &program{
			time: p.clock, payload: ringtest.Payload(p.clock, ringtest.MinPayload+p.IntN(60)), slept: p.IntN(p.sleep) < 3,
		})
		return
	}
	i := p.IntN(len(p.running))
	switch pr := p.running[i]; {
	case pr.record != nil && pr.slept && p.IntN(p.sleep) > 0:
	case pr.record == nil:
		if r, err := p.ring.Reserve(len(pr.payload)); err == nil {
			pr.record = &r
		} else {
			p.end(i, false)
		}
	case pr.written < len(pr.payload):
		piece := pr.payload[pr.written:min(pr.written+8, len(pr.payload))]
		pr.written += len(piece)
		pr.record.Write(pr.written-len(piece), piece)
	case p.IntN(5) == 0:
		pr.record.Discard(0)
		p.end(i, false)
	default:
		pr.record.Commit(0)
		p.end(i, true)
	}
}

func (p *producers) end(i int, submitted bool) {
	p.ended[p.running[i].time] = submitted && !p.running[i].slept
	p.running = slices.Delete(p.running, i, i+1)
}

// some lets programs take some steps, most often few.
func (p *producers) some() {
	steps := [...]int{0, 0, 1, 2, 3, 10, 30, 300}[p.IntN(8)]
	if p.IntN(500) == 0 {
		steps = 3000 // more than a lap
	}
	for range steps {
		p.store()
	}
}

// wait is a grace period, which ends while programs sleep.
func (p *producers) wait() {
	for before := slices.Clone(p.running); slices.ContainsFunc(before, func(pr *program) bool { return !pr.slept && slices.Contains(p.running, pr) }); {
		p.store()
	}
	p.some()
}

// interrupted is the reading side. Programs go on between its accesses, and while it copies. Before
// a grace period, a load of overwrite_pos may miss the latest stores.
type interrupted struct {
	*raw.Ring
	*producers
	over []uint64 // values since the load of producer_pos, or the grace period
}

func (r *interrupted) seen() { r.over = append(r.over, r.Ring.Overwritten()) }

func (r *interrupted) some() {
	r.seen()
	r.producers.some()
	r.seen()
}

func (r *interrupted) Head() uint64 {
	r.producers.some()
	r.over = nil
	defer r.seen()
	return r.Ring.Head()
}

func (r *interrupted) Pending() uint64 { r.some(); return r.Ring.Pending() }

func (r *interrupted) Overwritten() uint64 { r.some(); return r.over[r.IntN(len(r.over))] }

func (r *interrupted) Parse(off, head uint64, rec *raw.Record) {
	r.some()
	r.Ring.Parse(off, head, rec)
}

// CopyWords reads each word at a time of its own.
func (r *interrupted) CopyWords(to []uint64, off, n uint64) {
	r.some()
	r.Ring.CopyWords(to, off, n)
	for range r.IntN(4) {
		r.some()
		now := make([]uint64, n/8)
		r.Ring.CopyWords(now, off, n)
		for i := range now {
			if r.IntN(2) == 0 {
				to[i] = now[i]
			}
		}
	}
}

// A copy that programs interrupt at any step, and that interrupts them at any store, has all events
// from since to until, and nothing else.
func TestCopyOfOverwrittenRingBuf(t *testing.T) {
	var snapshots, taken, skipped, busy, lapped, unordered int
	for seed := range uint64(60) {
		p := startProducers(t, seed)
		live := &interrupted{Ring: p.ring.Raw(), producers: p}
		live.SetFields(0, -1)
		c := newCopy(live.Ring, mostPrograms)
		for range 50 {
			p.some()
			until := p.clock
			p.wait()
			c.takeRingBuf(live)
			live.over = nil
			live.seen()
			p.wait()
			c.checkRingBuf(live)
			c.index(ever)
			var want, all []uint64
			for time := c.since; time <= until; time++ {
				if p.ended[time] {
					want = append(want, time)
				}
			}
			inOrder([]*ringCopy{c})(func(ev raw.Event) bool {
				id, err := ringtest.Check(ev.Bytes())
				require.NoErrorf(t, err, "seed %d", seed)
				require.Equal(t, id, ev.Time())
				if id >= c.since && id <= until && p.ended[id] {
					all = append(all, id)
				}
				return true
			})
			require.Equalf(t, want, all, "seed %d, since %d until %d", seed, c.since, until)
			require.Equal(t, raw.FaultNone, c.fault)
			snapshots, taken = snapshots+1, taken+len(all)
			busy += len(c.busy)
			switch {
			case c.bytes > 0 && c.skip == c.bytes:
				lapped++
			case c.skip > 0:
				skipped++
			}
			if !slices.IsSorted(c.places) {
				unordered++
			}
		}
	}
	t.Logf("%d snapshots of %d events; %d gave up records and %d all; %d records were busy; %d out of order", snapshots, taken, skipped, lapped, busy, unordered)
	for _, n := range []int{taken, skipped, lapped, busy, unordered} {
		require.Greater(t, n, 100)
	}
}

// A payload that is too short for its time goes with its predecessor, and the oldest has none.
func TestUntimed(t *testing.T) {
	b := ringtest.NewRingBuf(1024, 0)
	b.Overwrite(func() {})
	for _, payload := range []string{"a", "\x05\x00\x00\x00\x00\x00\x00\x00", "bcd", "\x04\x00\x00\x00\x00\x00\x00\x00e", "", "f"} {
		require.NoError(t, b.Output([]byte(payload)))
	}
	live := b.Raw()
	live.SetFields(0, 8)
	c := newCopy(live, 1)
	c.take()
	c.check()
	c.index(ever)
	var all []got
	inOrder([]*ringCopy{c})(func(ev raw.Event) bool {
		all = append(all, got{ev.Time(), uint64(ev.Len())})
		return true
	})
	require.Equal(t, []got{{0, 1}, {4, 9}, {4, 0}, {4, 1}, {5, 8}, {5, 3}}, all)
	require.Zero(t, c.since)
}
