package stream

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// sim writes rings as CPUs do, under one clock. A program delays its reservation, so older times
// land behind younger ones. Perf rings publish their newest records late. In ring buffers, any
// record stays busy for a while.
type sim struct {
	*bench
	rnd  *rand.Rand
	size int // of the next ring
	run
}

// run configures a simulation.
type run struct {
	rings   []laneKind
	sizes   []int
	exact   bool // the watermark is below every later record
	slack   func(s *sim) uint64
	stamped bool // times are taken behind the reservation
	changes bool // rings are added and removed
	crowd   bool // rounds of many records, half of them in ring 0
	must    func(c counts) []int
}

var perf, buffer = laneKind{}, laneKind{buffer: true}

func lanes(n int, k laneKind) []laneKind { return slices.Repeat([]laneKind{k}, n) }

func newSim(t testing.TB, seed uint64, r run) *sim {
	size := r.sizes[seed%uint64(len(r.sizes))]
	block := min(size, max(size/4, 1<<16))
	s := &sim{size: size, rnd: rand.New(rand.NewPCG(seed, uint64(len(r.rings)))), run: r}
	s.bench = setup{spill: []int{3 * block, 0, block, 100*block + 1, block - 1}[seed%5]}.bench(t)
	s.clock = 1000
	for _, kind := range r.rings {
		s.addLane(kind)
	}
	return s
}

func (s *sim) addLane(kind laneKind) {
	start := []uint64{0, 1<<32 - 512, math.MaxUint64 - 1023, 1<<63 - 64}[s.rnd.IntN(4)]
	if s.changes {
		s.size = s.sizes[s.rnd.IntN(len(s.sizes))]
	}
	s.add(kind, s.size, start)
}

// step lets one program do something.
func (s *sim) step() {
	if s.rnd.IntN(3) > 0 {
		s.clock += s.rnd.Uint64N(5)
	}
	i := s.rnd.IntN(len(s.lanes))
	if s.crowd {
		i *= s.rnd.IntN(2)
	}
	if l := s.lanes[i]; l.quietUntil > s.clock {
		return
	} else if l.perf != nil {
		s.stepPerf(i, l)
	} else {
		s.stepBuffer(i, l)
	}
}

func (s *sim) stepPerf(i int, l *lane) {
	switch s.rnd.IntN(24) {
	case 0:
		l.quietUntil = s.clock + s.rnd.Uint64N(uint64(10*len(s.lanes)))
	case 1, 2:
		s.throttle(i, 8*s.rnd.IntN(5))
	case 3, 4:
		if len(l.taken) == 0 {
			l.taken = append(l.taken, s.clock)
		}
	case 5, 6, 7:
		if len(l.taken) > 0 {
			time := l.taken[0]
			if l.perf.Pending() > 0 {
				time = s.clock // the kernel takes the time again when it adds a report of losses
			}
			s.write(i, time)
			l.taken = nil
		}
	case 8, 9:
		l.perf.Defer = true
	case 10, 11, 12:
		s.publish(l)
	case 13:
		if s.now == nil && s.rnd.IntN(4) == 0 { // nobody scans while the user holds an event
			s.damage(i, 8*(1+s.rnd.IntN(int(l.raw.Size())/32)))
		}
	default:
		s.write(i, s.clock)
	}
}

func (s *sim) write(i int, time uint64) {
	key := noKey
	switch s.rnd.IntN(8) {
	case 0:
	case 1:
		key = forever + s.rnd.Uint64N(5)
	case 2:
		key = time + s.rnd.Uint64N(100)
	default:
		key = time - min(time, s.rnd.Uint64N(30))
	}
	n := 12 + s.rnd.IntN(int(s.lanes[i].raw.Size())/12)
	if s.crowd {
		n = 12
		if s.rnd.IntN(100) == 0 {
			time -= min(time, 2000)
		}
	}
	s.outputKey(i, time, key, n)
}

func (s *sim) publish(l *lane) {
	l.perf.Defer = false
	l.perf.Publish()
}

func (s *sim) stepBuffer(i int, l *lane) {
	switch op := s.rnd.IntN(8); {
	case op < 3 && !s.stamped && len(l.taken) < 5:
		l.taken = append(l.taken, s.clock)
	case op < 5 && (s.stamped || len(l.taken) > 0):
		s.clock++
		key := s.clock
		if !s.stamped {
			at := s.rnd.IntN(len(l.taken))
			key = l.taken[at]
			l.taken = slices.Delete(l.taken, at, at+1)
		}
		n := 8 + s.rnd.IntN(50)
		if s.rnd.IntN(16) == 0 {
			n = s.rnd.IntN(8)
		}
		s.reserve(i, key, n)
	default:
		open := l.open()
		if len(open) == 0 || s.rnd.IntN(6) == 0 {
			return
		}
		r := open[s.rnd.IntN(min(len(open), 4))]
		if s.rnd.IntN(8) == 0 {
			r.discard()
			return
		}
		r.commit()
	}
}

// open returns the records that their programs have not committed.
func (l *lane) open() (open []*rec) {
	for _, r := range l.recs {
		if r.isOpen() {
			open = append(open, r)
		}
	}
	return open
}

// bound returns the time up to which no more records can come.
func (s *sim) bound() uint64 {
	bound := s.clock
	for _, l := range s.lanes {
		for _, time := range l.taken {
			bound = min(bound, time)
		}
		for _, r := range l.recs {
			if r.isOpen() || int64(r.off-l.raw.Head()) >= 0 {
				bound = min(bound, max(r.key, 1))
			}
		}
	}
	return bound - 1
}

// stampedUpTo is bound as the merger knows it.
func (s *sim) stampedUpTo() uint64 {
	bound := s.clock
	for i := range s.lanes {
		bound = min(bound, s.m.rings[i].stampedUpTo())
	}
	return bound - min(bound, 1)
}

// play plays rounds, each up to a watermark chosen before the heads are loaded.
func (s *sim) play() {
	for range 6 + 60/len(s.lanes) {
		steps := s.rnd.IntN(40 * len(s.lanes))
		if s.crowd {
			steps *= 10
		}
		for range steps {
			s.step()
		}
		w := s.bound()
		if !s.exact {
			w = s.slack(s)
		}
		for range s.rnd.IntN(4) { // between the watermark and the heads
			s.step()
		}
		for _, i := range s.rnd.Perm(len(s.lanes)) {
			s.scan(i)
		}
		if s.exact && s.stamped {
			w = s.stampedUpTo()
		}
		if s.rnd.IntN(8) == 0 {
			continue // look at the held records without a round
		}
		for range s.rnd.IntN(3) {
			s.disturb()
		}
		s.roundOf(w)
		if s.changes && s.rnd.IntN(4) == 0 && len(s.lanes) < 5 {
			s.addLane(s.rings[s.rnd.IntN(len(s.rings))])
		}
		if s.changes && s.rnd.IntN(4) == 0 && len(s.lanes) > 1 {
			s.remove(s.rnd.IntN(len(s.lanes)))
		}
	}
	for _, l := range s.lanes {
		for _, r := range l.open() {
			r.commit()
		}
		if l.perf != nil {
			s.publish(l)
		}
	}
	s.round(all)
	s.empty()
	for s.changes && len(s.lanes) > 0 {
		s.remove(0)
		s.round(all)
	}
}

// roundOf plays one round, in which programs go on and the user may stop early.
func (s *sim) roundOf(w uint64) {
	due := s.begin(w)
	stop := len(due)
	if s.rnd.IntN(4) == 0 {
		stop = s.rnd.IntN(len(due) + 1)
	}
	for _, want := range due[:stop] {
		s.next(want)
		if s.rnd.IntN(4) == 0 {
			s.step()
		}
		s.disturb()
	}
	if stop == len(due) {
		s.over()
		if s.rnd.IntN(4) == 0 {
			s.complete(w)
		}
		return
	}
	s.end()
}

// disturb makes random calls that a user may make between two events, and between rounds.
func (s *sim) disturb() {
	i := s.rnd.IntN(len(s.lanes))
	switch s.rnd.IntN(24) {
	case 0, 1:
		s.spill(i)
	case 2:
		s.finish()
		s.scan(i)
	case 3:
		s.finish()
		s.lose(i, s.clock)
	case 4:
		s.giveBack(i)
	}
}

func TestSimulation(t *testing.T) {
	small, large := []int{512, 1024, 4096}, []int{128 << 10, 512 << 10} // large: above a block
	eager := func(s *sim) uint64 { return s.clock - 3 }
	back := func(s *sim) uint64 { // as after a flush
		if s.rnd.IntN(3) == 0 {
			return s.clock + 1000
		}
		return s.clock - min(s.clock, s.rnd.Uint64N(200))
	}
	written := func(c counts) []int { return []int{c.inversions, c.unknown, c.lost, c.added, c.corrupt, c.spilled} }
	late := func(c counts) []int { return append(written(c), c.late) }
	keyed := func(c counts) []int { return append(late(c), c.keyless) }
	shared := func(c counts) []int { return []int{c.discarded, c.foundBusy, c.behindBusy, c.spilled, c.removed} }
	sharedLate := func(c counts) []int { return append(shared(c), c.late) }
	mixed := append(lanes(2, perf), buffer, buffer, laneKind{keyed: true})

	runs := map[string]run{
		"crowd":           {rings: lanes(33, perf), sizes: []int{512 << 10}, slack: back, crowd: true, must: func(c counts) []int { return []int{c.late, c.spilled} }},
		"keyed":           {rings: lanes(2, laneKind{keyed: true}), sizes: small[1:2], slack: back, must: keyed},
		"keyed, no times": {rings: lanes(3, laneKind{keyed: true, noTime: true}), sizes: small[1:2], slack: back, must: keyed},
		"no times":        {rings: lanes(3, laneKind{noTime: true}), sizes: small, slack: back, must: func(c counts) []int { return []int{c.late, c.lost, c.added, c.corrupt, c.spilled} }},
		"buffers":         {rings: lanes(3, buffer), sizes: small, exact: true, changes: true, must: shared},
		"stamped":         {rings: lanes(3, buffer), sizes: small, exact: true, stamped: true, changes: true, must: shared},
		"buffers, slack":  {rings: lanes(2, buffer), sizes: small, slack: eager, changes: true, must: sharedLate},
		"mixed":           {rings: mixed[:4], sizes: append(small, large...), exact: true, changes: true, must: shared},
		"mixed, slack":    {rings: mixed, sizes: append(small, large...), slack: back, changes: true, must: sharedLate},
	}
	for _, n := range []int{1, 2, 3, 8, 33} {
		r := run{rings: lanes(n, perf), sizes: small, exact: true, must: written}
		if n == 3 {
			r.sizes = large
		}
		runs[fmt.Sprintf("%d, exact", n)] = r
		r.exact, r.slack, r.must = false, eager, late
		runs[fmt.Sprintf("%d, eager", n)] = r
		r.slack = back
		runs[fmt.Sprintf("%d, back", n)] = r
	}
	for name, r := range runs {
		t.Run(name, func(t *testing.T) {
			var sum counts
			for seed := range uint64(seeds) {
				if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					s := newSim(t, seed, r)
					s.counts = sum
					s.play()
					sum = s.counts
					require.False(t, r.exact && s.late > 0, "the watermark was low enough")
				}) {
					return
				}
			}
			t.Logf("%+v", sum)
			require.Positive(t, slices.Min(r.must(sum)))
		})
	}
}
