package merge_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// written is a record of a ring buffer, from its reservation on.
type written struct {
	ringtest.Record
	id, key uint64
	n       int  // payload bytes: below 8 it has no key
	open    bool // neither committed nor discarded
	dropped bool // discarded
	seen    bool // committed, when a scan looked at it
	placed  bool
	late    bool // a scan found it busy
	due     bool
	spilled bool
	after   uint64 // the clock before the latest scan with a head at or below it
}

// buffer is a ring buffer that several programs write, and what should come out of it.
type buffer struct {
	*ringtest.RingBuf
	recs                []*written
	max, scanned, looks uint64
}

// shared is a Merger of ring buffers under test, beside the plainest description of it.
type shared struct {
	t        *testing.T
	rnd      *rand.Rand
	m        *merge.Merger
	bufs     []*buffer
	clock    uint64
	stamped  bool // times are taken behind the reservation
	taken    []uint64
	ids      uint64
	last     uint64
	spilling bool

	delivered, discarded, foundDiscarded, late, overtaken, behindBusy, moved int
}

func newShared(t *testing.T, seed uint64, stamped bool) *shared {
	s := &shared{t: t, rnd: rand.New(rand.NewPCG(seed, 99)), clock: 1000, stamped: stamped}
	s.m = merge.New(nil, merge.Options{Spill: []int{0, 1 << 20, 1500}[seed%3]}, s.committed)
	for range 1 + seed%3 {
		s.add()
	}
	return s
}

func (s *shared) add() {
	start := []uint64{0, 1<<32 - 512, math.MaxUint64 - 1023, 1<<63 - 64}[s.rnd.IntN(4)]
	b := &buffer{RingBuf: ringtest.NewRingBuf(512<<s.rnd.IntN(3), start), scanned: start}
	r := b.Raw()
	r.SetFields(0, -1)
	s.bufs = append(s.bufs, b)
	s.m.Add(r)
}

func (s *shared) reserve(b *buffer) {
	n := 8 + s.rnd.IntN(50)
	if s.rnd.IntN(16) == 0 {
		n = s.rnd.IntN(8)
	}
	h, err := b.Reserve(n)
	if err != nil {
		return
	}
	s.ids++
	w := &written{Record: h, id: s.ids, n: n, open: true, after: b.looks}
	if s.stamped {
		s.clock++
		w.key = s.clock
	} else { // one that was taken some time ago
		i := s.rnd.IntN(len(s.taken))
		w.key = s.taken[i]
		s.taken = slices.Delete(s.taken, i, i+1)
	}
	b.recs = append(b.recs, w)
}

func (w *written) payload() []byte {
	b := binary.NativeEndian.AppendUint64(nil, w.key)
	for i := range 60 {
		b = append(b, byte(w.id*7+uint64(i)))
	}
	return b[:w.n]
}

func (s *shared) step() {
	b := s.bufs[s.rnd.IntN(len(s.bufs))]
	s.clock++
	switch op := s.rnd.IntN(8); {
	case op < 3 && !s.stamped && len(s.taken) < 5:
		s.taken = append(s.taken, s.clock)
	case op < 5 && (s.stamped || len(s.taken) > 0) && len(b.recs) < 40:
		s.reserve(b)
	default:
		var open []*written
		for _, w := range b.recs {
			if w.open {
				open = append(open, w)
			}
		}
		if len(open) == 0 || s.rnd.IntN(6) == 0 {
			return
		}
		w := open[s.rnd.IntN(min(len(open), 4))]
		w.open = false
		if s.rnd.IntN(8) == 0 {
			w.dropped = true
			w.Discard(0)
			s.discarded++
			return
		}
		w.Write(0, w.payload())
		w.Commit(0)
	}
}

// scan takes in what the i-th ring buffer has, in both the merger and the model.
func (s *shared) scan(i int) {
	b := s.bufs[i]
	now := s.clock
	head := b.Head()
	b.looks = now
	discarded := 0
	for _, late := range []bool{true, false} { // those that were busy come first
		for _, w := range b.recs {
			if w.late != late || w.seen || w.dropped && w.after == math.MaxUint64 {
				continue
			}
			switch {
			case w.dropped:
				w.after = math.MaxUint64 // counted
				discarded++
			case w.open:
				w.late = true
			default:
				w.seen = true
				if w.n < 8 {
					w.key, w.placed = b.max, true
				} else if !late {
					b.max = max(b.max, w.key)
				}
			}
		}
	}
	require.Equal(s.t, discarded, s.m.Scan(i, head, forever, now).Discarded)
	s.foundDiscarded += discarded
	b.scanned = head
	held, open, bound := 0, 0, now
	for _, w := range b.recs {
		switch {
		case w.open:
			open++
			bound = min(bound, w.after)
		case w.seen:
			held++
			if open > 0 {
				s.behindBusy++
			}
		}
	}
	require.Equal(s.t, []int{held, open}, []int{s.m.Held(i), s.m.Busy(i)})
	require.Equal(s.t, bound, s.m.StampedUpTo(i))
	if s.rnd.IntN(2) == 0 {
		s.giveBack(i)
	}
}

// giveBack moves a tail up to the first record that is busy, or held and not copied out.
func (s *shared) giveBack(i int) {
	b := s.bufs[i]
	s.m.GiveBack(i)
	want, busy := b.scanned, b.scanned
	for _, w := range b.recs {
		if (w.open || w.seen && !w.spilled) && int64(w.Off-want) < 0 {
			want = w.Off
		}
		if w.open && int64(w.Off-busy) < 0 {
			busy = w.Off
		}
	}
	require.Equal(s.t, want, b.Tail())
	require.Equal(s.t, want == busy, s.m.CaughtUp(i))
}

// watermark is below the times of all that is still to come.
func (s *shared) watermark() uint64 {
	if s.stamped {
		mark := s.clock
		for i := range s.bufs {
			mark = min(mark, s.m.StampedUpTo(i))
		}
		return mark - min(mark, 1)
	}
	mark := s.clock
	for _, time := range s.taken {
		mark = min(mark, time-1)
	}
	for _, b := range s.bufs {
		for _, w := range b.recs {
			if w.open || !w.seen && !w.dropped {
				mark = min(mark, w.key-1)
			}
		}
	}
	return mark
}

func (s *shared) round(watermark uint64, disturb bool) {
	type place struct {
		*written
		ring int
	}
	var due []place
	for i, b := range s.bufs {
		for _, w := range b.recs {
			if w.seen && w.key <= watermark {
				w.due = true
				due = append(due, place{w, i})
			}
		}
	}
	slices.SortStableFunc(due, func(a, b place) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.ring, b.ring)) })
	s.m.Begin(watermark)
	for n, want := range due {
		it := next(s.m)
		if it == nil {
			s.t.Fatalf("nothing where %+v is due", want.written)
		}
		key := want.key
		if want.placed {
			key = max(key, s.last)
		}
		late := key < s.last
		if it.Ring != want.ring || it.Kind != raw.Sample || it.Key != key || it.Time != key || it.Late != late || (want.n >= 8 || !want.placed) && string(it.Data) != string(want.payload()) || it.Len != want.n {
			s.t.Fatalf("got %+v, want %+v of ring %d, late %v", it, want.written, want.ring, late)
		}
		if late {
			s.late++
		}
		if want.late {
			s.overtaken++
		}
		s.last = max(s.last, key)
		s.delivered++
		b := s.bufs[want.ring]
		b.recs = slices.DeleteFunc(b.recs, func(w *written) bool { return w == want.written })
		if disturb && n%5 == 4 {
			for range 20 {
				s.step()
			}
			i := s.rnd.IntN(len(s.bufs))
			s.scan(i)
			s.spill(i)
		}
	}
	if it := next(s.m); it != nil {
		s.t.Fatalf("unexpected %+v", it)
	}
	s.m.End()
}

func (s *shared) spill(i int) {
	s.spilling = true
	s.moved += int(s.m.Spill(i))
	s.spilling = false
}

// committed plays a kernel that overwrites what it is given back.
func (s *shared) committed(i int, bytes uint64) {
	b := s.bufs[i]
	tail := b.Tail()
	require.GreaterOrEqual(s.t, int64(b.scanned-tail), int64(0))
	for _, w := range b.recs {
		if int64(tail-w.Off) <= 0 || w.dropped {
			continue
		}
		if w.spilled = w.spilled || s.spilling && w.seen; !w.spilled {
			s.t.Fatalf("tail %d of ring %d passed %+v", tail, i, w)
		}
	}
	b.recs = slices.DeleteFunc(b.recs, func(w *written) bool { return w.dropped && w.after == math.MaxUint64 && int64(tail-w.Off) > 0 })
	b.Poison()
}

func (s *shared) run(steps int, watermark func() uint64) {
	for range steps {
		s.step()
		switch s.rnd.IntN(20) {
		case 0, 1:
			s.scan(s.rnd.IntN(len(s.bufs)))
		case 2:
			s.spill(s.rnd.IntN(len(s.bufs)))
		case 3:
			for i := range s.bufs {
				s.scan(i)
			}
			s.round(watermark(), s.rnd.IntN(2) == 0)
		}
		if len(s.bufs) < 4 && s.rnd.IntN(300) == 0 {
			s.add()
		}
		if len(s.bufs) > 1 && s.rnd.IntN(300) == 0 {
			s.remove(s.rnd.IntN(len(s.bufs)))
		}
	}
	for i, b := range s.bufs { // all ends
		for _, w := range b.recs {
			if w.open {
				w.open = false
				w.Write(0, w.payload())
				w.Commit(0)
			}
		}
		s.scan(i)
	}
	s.round(all, false)
	for i, b := range s.bufs {
		require.Equal(s.t, b.Head(), b.Tail())
		require.Zero(s.t, s.m.Held(i)+s.m.Busy(i))
	}
	require.Zero(s.t, s.m.Spilled())
	if s.stamped {
		require.Zero(s.t, s.late)
	}
}

// remove takes a ring buffer out. Its tail stays in front of what is busy.
func (s *shared) remove(i int) {
	b := s.bufs[i]
	first := b.scanned
	for _, w := range b.recs {
		if w.late && !w.seen && w.after != math.MaxUint64 {
			first = w.Off
			break
		}
	}
	b.recs = nil
	s.m.Remove(i)
	require.Equal(s.t, first, b.Tail())
	s.bufs = slices.Delete(s.bufs, i, i+1)
}

// Programs on several CPUs write shared ring buffers, each record in steps, with the steps of others between.
func TestSharedRingBuffers(t *testing.T) {
	var sum shared
	for seed := range uint64(24) {
		for _, stamped := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed %d, stamped %v", seed, stamped), func(t *testing.T) {
				s := newShared(t, seed, stamped)
				s.run(3000, s.watermark)
				require.Zero(t, s.late, "the watermark was low enough")
				require.Greater(t, s.delivered, 300)
				sum.overtaken += s.overtaken
				sum.behindBusy += s.behindBusy
				sum.moved += s.moved
				sum.foundDiscarded += s.foundDiscarded
			})
		}
	}
	t.Log(sum.overtaken, sum.behindBusy, sum.moved, sum.foundDiscarded)
	require.Greater(t, min(sum.overtaken, sum.behindBusy, sum.moved, sum.foundDiscarded), 500)
}

// A watermark that is too high makes late what is committed after it.
func TestSharedRingBuffersInSlackMode(t *testing.T) {
	for seed := range uint64(12) {
		s := newShared(t, seed, false)
		s.run(3000, func() uint64 { return s.clock - min(s.clock, s.rnd.Uint64N(60)) })
		require.NotZero(t, s.late)
	}
}
