package top

import (
	"cmp"
	"slices"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// snapshot is what is known at one moment.
type snapshot struct {
	at      time.Time
	stats   perfbuf.Stats  // of all maps
	names   []string       // whose each ring is, empty if there is but one map
	first   map[int]uint64 // how often the Schedule has put a CPU's ring first
	last    int            // which it was the latest time, or noCPU
	mode    mode
	paused  bool
	problem string // what the user asked for and did not get
}

// add adds what the reader of one more map says.
func (s *snapshot) add(name string, one perfbuf.Stats) {
	for range one.Rings {
		s.names = append(s.names, name)
	}
	if s.stats.Rings == nil {
		s.stats = one
		return
	}
	all := &s.stats
	all.Rings = append(all.Rings, one.Rings...)
	all.Wakes, all.Passes, all.ReplacedEntries = all.Wakes+one.Wakes, all.Passes+one.Passes, all.ReplacedEntries+one.ReplacedEntries
	all.Displaced.Entries += one.Displaced.Entries
	all.Displaced.Err = cmp.Or(all.Displaced.Err, one.Displaced.Err)
	all.Late, all.MaxLateness = all.Late+one.Late, max(all.MaxLateness, one.MaxLateness)
	all.SpilledBytes, all.SpillUsed = all.SpilledBytes+one.SpilledBytes, all.SpillUsed+one.SpillUsed
	all.Doorbell.Armed, all.Doorbell.Polls = all.Doorbell.Armed+one.Doorbell.Armed, all.Doorbell.Polls+one.Doorbell.Polls
	if all.Barrier.Provider == "" { // it is the same for all
		all.Barrier = one.Barrier
	}
	if all.Hotplug.Err == nil {
		all.Hotplug.Err = one.Hotplug.Err
	}
}

// name is whose the i-th ring is.
func (s snapshot) name(i int) string {
	if i < len(s.names) {
		return s.names[i]
	}
	return ""
}

// ring tells rings apart. Several of a map of ring buffers may have the same CPU, or none.
type ring struct {
	name   string
	cpu, n int
}

// rings returns which is which.
func (s snapshot) rings() []ring {
	all, seen := make([]ring, len(s.stats.Rings)), map[ring]int{}
	for i, r := range s.stats.Rings {
		k := ring{name: s.name(i), cpu: r.CPU}
		k.n, seen[k] = seen[k], seen[k]+1
		all[i] = k
	}
	return all
}

// frame is what two snapshots tell.
type frame struct {
	snapshot
	elapsed  time.Duration // since the beginning
	interval time.Duration // between the two
	rows     []row         // by CPU
	total    row
	choices  uint64 // of the Schedule, in the interval
	wakes    float64
	refused  float64 // outputs per second that the kernel refused for other reasons than a full ring
}

// row is one CPU's ring. Rates are per second.
type row struct {
	perfbuf.RingStats
	name                string // of the map, if there are several
	events, bytes, lost float64
	first               float64 // of the Schedule's choices in the interval, the share that was this ring's
	last                bool    // so was its latest choice
}

// newFrame compares two snapshots. began is when reading did.
func newFrame(began time.Time, before, now snapshot) frame {
	f := frame{snapshot: now, elapsed: now.at.Sub(began), interval: now.at.Sub(before.at)}
	seconds := f.interval.Seconds()
	old := map[ring]perfbuf.RingStats{} // none of a CPU that has come since
	for i, k := range before.rings() {
		old[k] = before.stats.Rings[i]
	}
	rings := now.rings()
	for cpu, n := range now.first {
		f.choices += n - before.first[cpu]
	}
	for i, r := range now.stats.Rings {
		one := newRow(old[rings[i]], r, seconds)
		one.name = now.name(i)
		if f.choices > 0 {
			one.first = float64(now.first[r.CPU]-before.first[r.CPU]) / float64(f.choices)
			one.last = r.CPU == now.last
		}
		f.rows = append(f.rows, one)
	}
	f.total = newRow(before.stats.Total(), now.stats.Total(), seconds)
	f.wakes = rate(before.stats.Wakes, now.stats.Wakes, seconds)
	f.refused = rate(refused(before.stats), refused(now.stats), seconds)
	return f
}

func newRow(before, now perfbuf.RingStats, seconds float64) row {
	return row{
		RingStats: now,
		events:    rate(before.Samples, now.Samples, seconds),
		bytes:     rate(before.Bytes, now.Bytes, seconds),
		lost:      rate(before.Lost, now.Lost, seconds),
	}
}

// rate is how much comes in a second. A count that went back, as one that is set right at the end may, has none.
func rate(before, now uint64, seconds float64) float64 {
	if now <= before || seconds <= 0 {
		return 0
	}
	return float64(now-before) / seconds
}

// refused is how many outputs have failed for other reasons than a full ring, if programs count.
func refused(s perfbuf.Stats) uint64 {
	t := s.Outputs.Total()
	return t.Attempted - t.Written - t.Full
}

// fullness is the share of a ring that is in use: 0 without a ring.
func (r row) fullness() float64 { return share(r.Used, r.Size) }

// highest is the greatest share that was.
func (r row) highest() float64 { return share(r.HighWater, r.Size) }

func share(n, of int) float64 { return min(float64(n)/float64(max(of, 1)), 1) }

// sorting is the order of rows.
type sorting int

const (
	byCPU sorting = iota
	byFullness
	sortings // how many there are
)

func (s sorting) String() string { return [...]string{"CPU", "fullness"}[s] }

// sorted returns the rows in an order, leaving f's as they are.
func (f frame) sorted(by sorting) []row {
	rows := slices.Clone(f.rows)
	if by == byFullness {
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Or(cmp.Compare(b.fullness(), a.fullness()), cmp.Compare(b.highest(), a.highest()))
		})
	}
	return rows
}
