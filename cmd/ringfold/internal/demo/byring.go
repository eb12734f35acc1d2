package demo

import (
	"cmp"
	"slices"
)

// byRing finds out in which order events would come if they were read ring by ring, as libbpf's perf_buffer__consume does: of the
// events that are there at one time, first those of CPU 0, then of CPU 1 and so on.
type byRing struct {
	round [][]event // the events that were there this time, by ring

	last, newest uint64 // time of the event before, and the latest one
	reordered    uint64 // events with an earlier time than the one before
	overtaken    uint64 // events with an earlier time than any one before
	best         excerpt
}

// endRound ends a pass over all rings.
func (b *byRing) endRound() (reordered, overtaken uint64) {
	var read []row
	for ring, events := range b.round {
		for _, e := range events {
			if e.TimeNS < b.last {
				b.reordered++
			}
			if e.TimeNS < b.newest {
				b.overtaken++
			}
			read = append(read, row{event: e, overtaken: e.TimeNS < b.newest})
			b.last, b.newest = e.TimeNS, max(b.newest, e.TimeNS)
		}
		b.round[ring] = events[:0]
	}
	if found := find(read); found.better(b.best) {
		b.best = found
	}
	return b.reordered, b.overtaken
}

// rows is how many events the picture shows.
const rows = 9

// An excerpt is a few events that were read one after the other.
type excerpt struct {
	rows []row
	// wrong is a pair in the wrong order, as words; empty if there is none.
	wrong     string
	rank      int // how surprising that is
	overtaken int
}

type row struct {
	event
	overtaken bool // it comes after a later one
	wrong     bool // it is of the pair
}

// inOrder returns the same rows by time.
func (x excerpt) inOrder() []row {
	all := slices.Clone(x.rows)
	slices.SortStableFunc(all, func(a, b row) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	return all
}

func (x excerpt) better(than excerpt) bool {
	return cmp.Or(cmp.Compare(x.rank, than.rank), cmp.Compare(len(x.rows), len(than.rows)), cmp.Compare(x.overtaken, than.overtaken)) > 0
}

// find cuts the best excerpt out of one round: an exec before its fork, or else an exit before its fork,
// or else any event that comes after a later one.
func find(read []row) excerpt {
	forks := map[uint32]int{} // by the child
	for i, r := range read {
		if r.Event == "fork" {
			forks[r.ChildPID] = i
		}
	}
	for n, what := range []string{"exec", "exit"} {
		for i, r := range read {
			if r.Event != what || r.TID != 0 {
				continue
			}
			if fork := forks[r.PID]; i < fork && fork-i < rows && r.TimeNS > read[fork].TimeNS {
				x := around(read, i, fork)
				x.rank, x.wrong = 3-n, "an "+what+" before its fork"
				return x
			}
		}
	}
	for i := 1; i < len(read); i++ {
		if read[i].TimeNS < read[i-1].TimeNS {
			x := around(read, i-1, i)
			x.rank, x.wrong = 1, "an event before an earlier one"
			return x
		}
	}
	return excerpt{}
}

// around returns the events from one to another, and as many around them as there is room for.
func around(read []row, from, to int) excerpt {
	spare := rows - (to - from + 1)
	start := max(0, min(from-spare/2, len(read)-rows))
	x := excerpt{rows: slices.Clone(read[start:min(len(read), start+rows)])}
	x.rows[from-start].wrong, x.rows[to-start].wrong = true, true
	for _, r := range x.rows {
		if r.overtaken {
			x.overtaken++
		}
	}
	return x
}
