package top

import (
	"cmp"
	"slices"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// snapshot is the state at one moment.
type snapshot struct {
	at      time.Time
	stats   perfbuf.Stats  // of all maps
	names   []string       // of each ring's map, empty if there is but one
	first   map[int]uint64 // how often the Schedule has put a CPU's ring first
	last    int            // which it was the latest time, or noCPU
	mode    source.Mode
	paused  bool
	problem string // what the user asked for and did not get
}

// add adds the Stats of one more map's reader.
func (s *snapshot) add(name string, one perfbuf.Stats) {
	s.names = append(s.names, slices.Repeat([]string{name}, len(one.Rings))...)
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
	all.Hotplug.Err = cmp.Or(all.Hotplug.Err, one.Hotplug.Err)
	if all.Barrier.Provider == "" { // it is the same for all
		all.Barrier = one.Barrier
	}
}

// ring tells rings apart. Several of a map of ring buffers may have the same CPU, or none.
type ring struct {
	name   string
	cpu, n int
}

// rings returns a key for each of the snapshot's rings.
func (s snapshot) rings() []ring {
	all, seen := make([]ring, len(s.stats.Rings)), map[ring]int{}
	for i, r := range s.stats.Rings {
		k := ring{cpu: r.CPU}
		if s.names != nil {
			k.name = s.names[i]
		}
		k.n, seen[k] = seen[k], seen[k]+1
		all[i] = k
	}
	return all
}

// frame is what two snapshots show: a line of --json. docs/tool.md explains the keys.
type frame struct {
	Time     time.Time   `json:"time"`
	Elapsed  float64     `json:"elapsed_seconds"`
	Interval float64     `json:"interval_seconds"`
	Mode     source.Mode `json:"mode"`
	Paused   bool        `json:"paused"`
	Problem  string      `json:"problem"`
	counts
	Corrupt      uint64   `json:"corrupt"`
	Late         uint64   `json:"late"`
	MaxLateness  float64  `json:"max_lateness_seconds"`
	SpilledBytes uint64   `json:"spilled_bytes"`
	SpillUsed    uint64   `json:"spill_used_bytes"`
	Wakes        uint64   `json:"wakeups"`
	Passes       uint64   `json:"passes"`
	Choices      uint64   `json:"choices"`
	Replaced     int      `json:"replaced_entries"`
	Displaced    *int     `json:"displaced"` // null: not known
	Doorbell     doorbell `json:"doorbell"`
	Barrier      *barrier `json:"barrier"`
	Outputs      *outputs `json:"outputs"`
	Rings        []row    `json:"rings"`

	wakes   float64 // per second
	refused float64 // outputs per second that failed for other reasons than a full ring
	hotplug error
	total   row // of all rings
}

// counts are of a ring, or of all: rates in the interval, and the numbers since the start.
type counts struct {
	EventsRate float64 `json:"events_per_second"`
	BytesRate  float64 `json:"bytes_per_second"`
	LostRate   float64 `json:"lost_per_second"`
	Delivered  uint64  `json:"delivered"`
	Dropped    uint64  `json:"dropped"`
	Lost       uint64  `json:"lost"`
	Shed       uint64  `json:"shed"`
}

type doorbell struct {
	Armed int    `json:"armed"`
	Polls uint64 `json:"polls"`
	Error string `json:"error"`
}

type barrier struct {
	Provider string  `json:"provider"`
	Count    uint64  `json:"count"`
	Failed   uint64  `json:"failed"`
	P50      float64 `json:"p50_seconds"`
	P99      float64 `json:"p99_seconds"`
	Max      float64 `json:"max_seconds"`
	Stalled  float64 `json:"stalled_seconds"`
}

type outputs struct {
	Attempted uint64 `json:"attempted"`
	Written   uint64 `json:"written"`
	Full      uint64 `json:"full"`
	NoRing    uint64 `json:"no_ring"`
	Other     uint64 `json:"other"`
}

// row is one ring.
type row struct {
	Map       string `json:"map"` // empty if there is but one
	CPU       int    `json:"cpu"`
	Size      int    `json:"size_bytes"`
	Used      int    `json:"used_bytes"`
	HighWater int    `json:"high_water_bytes"`
	counts
	Armed bool    `json:"armed"`
	First float64 `json:"first_share"` // of the Schedule's choices in the interval
	Last  bool    `json:"first_last"`  // the latest choice
}

// newFrame compares two snapshots. Reading began at a time before both.
func newFrame(began time.Time, before, now snapshot) frame {
	s, interval := now.stats, now.at.Sub(before.at).Seconds()
	f := frame{
		Time: now.at, Elapsed: now.at.Sub(began).Seconds(), Interval: interval, Mode: now.mode, Paused: now.paused, Problem: now.problem,
		Late: s.Late, MaxLateness: s.MaxLateness.Seconds(), SpilledBytes: s.SpilledBytes, SpillUsed: s.SpillUsed,
		Wakes: s.Wakes, Passes: s.Passes, Replaced: s.ReplacedEntries, Doorbell: doorbell{Armed: s.Doorbell.Armed, Polls: s.Doorbell.Polls},
		wakes: rate(before.stats.Wakes, s.Wakes, interval), hotplug: s.Hotplug.Err,
	}
	if d := s.Displaced; d.Entries > 0 || d.Err == nil {
		f.Displaced = &d.Entries
	}
	if s.Doorbell.Err != nil {
		f.Doorbell.Error = s.Doorbell.Err.Error()
	}
	if b := s.Barrier; b.Provider != "" {
		f.Barrier = &barrier{b.Provider, b.Count, b.Failed, b.P50.Seconds(), b.P99.Seconds(), b.Max.Seconds(), b.Stalled.Seconds()}
	}
	if s.Outputs.CPUs != nil {
		o, old := s.Outputs.Total(), before.stats.Outputs.Total()
		f.Outputs = &outputs{o.Attempted, o.Written, o.Full, o.NoRing, o.Attempted - o.Written - o.Full - o.NoRing}
		f.refused = rate(old.Attempted-old.Written-old.Full, o.Attempted-o.Written-o.Full, interval)
	}
	for cpu, n := range now.first {
		f.Choices += n - before.first[cpu]
	}
	old := map[ring]perfbuf.RingStats{} // none of a CPU that has come since
	for i, k := range before.rings() {
		old[k] = before.stats.Rings[i]
	}
	for i, k := range now.rings() {
		r := newRow(old[k], s.Rings[i], interval)
		r.Map = k.name
		if f.Choices > 0 {
			r.First, r.Last = float64(now.first[r.CPU]-before.first[r.CPU])/float64(f.Choices), r.CPU == now.last
		}
		f.Rings = append(f.Rings, r)
	}
	f.total = newRow(before.stats.Total(), s.Total(), interval)
	f.counts, f.Corrupt = f.total.counts, s.Total().Corrupt
	return f
}

func newRow(before, now perfbuf.RingStats, interval float64) row {
	return row{CPU: now.CPU, Size: now.Size, Used: now.Used, HighWater: now.HighWater, Armed: now.Armed, counts: counts{
		EventsRate: rate(before.Samples, now.Samples, interval),
		BytesRate:  rate(before.Bytes, now.Bytes, interval),
		LostRate:   rate(before.Lost, now.Lost, interval),
		Delivered:  now.Samples, Dropped: now.Dropped, Lost: now.Lost, Shed: now.Shed,
	}}
}

// rate is per second. A count that went back, as one that is set right at the end may, has none.
func rate(before, now uint64, seconds float64) float64 {
	if now <= before || seconds <= 0 {
		return 0
	}
	return float64(now-before) / seconds
}

// fullness is the share of a ring that is in use: 0 without a ring.
func (r row) fullness() float64 { return share(r.Used, r.Size) }

// highest is the greatest share so far.
func (r row) highest() float64 { return share(r.HighWater, r.Size) }

func share(n, of int) float64 { return min(float64(n)/float64(max(of, 1)), 1) }

// sorted returns the rows by CPU, or the fullest first.
func (f frame) sorted(byFullness bool) []row {
	rows := slices.Clone(f.Rings)
	if byFullness {
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Or(cmp.Compare(b.fullness(), a.fullness()), cmp.Compare(b.highest(), a.highest()))
		})
	}
	return rows
}
