//go:build linux && cgo

package main

import (
	"context"
	"errors"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// mapNames are the maps of -mode sources, whose events come in one stream. Programs output the
// number n to the map n mod 4.
var mapNames = [...]string{"events", "more", "shared", "shards"}

// isRingBuf says which are BPF ring buffers: a time in their payload orders them, and there is no
// padding.
func isRingBuf(m int) bool { return workload.Map(m).IsRingBuf() }

// openMaps opens the maps that are read besides the first, into g, and one stream of all.
func (s *session) openMaps(g *generation, ringOptions perfbuf.Options, o perfbuf.StreamOptions) error {
	for m := range mapNames[1:] {
		r, err := s.openMap(m+1, ringOptions)
		if err != nil {
			return err
		}
		g.more = append(g.more, r)
	}
	if s.c.changes && (!s.c.vary || s.rnd.IntN(2) == 0) {
		g.changes = &changes{ringOptions: ringOptions}
	}
	var err error
	if g.stream, err = perfbuf.Merge(o, g.readers()...); err != nil {
		return err
	}
	return s.p.Aim(workload.Spread, false)
}

// openMap opens one of them.
func (s *session) openMap(m int, o perfbuf.Options) (*perfbuf.Reader, error) {
	of := workload.Map(m)
	if !of.IsRingBuf() {
		return perfbuf.Open(s.p.FD(of), o)
	}
	return perfbuf.OpenRingBuf(s.p.FD(of), perfbuf.Options{
		Time: perfbuf.PayloadTime(workload.TimeOffset), CPU: perfbuf.PayloadCPU(workload.CPUOffset), LanesFD: s.p.LanesFD(of),
	})
}

// readers are all that the generation has.
func (g *generation) readers() []*perfbuf.Reader { return append([]*perfbuf.Reader{g.r}, g.more...) }

// close closes them.
func (g *generation) close() {
	for _, r := range g.readers() {
		r.Close()
	}
}

// wait waits until their counts are final.
func (g *generation) wait(ctx context.Context) error {
	for _, r := range g.readers() {
		select {
		case <-r.Done():
		case <-ctx.Done():
			return errors.New("a reader that is closed is not done")
		}
	}
	return nil
}

// mapResult is the result of one map.
type mapResult struct {
	Outputs   uint64 `json:"outputs"` // that succeeded, or failed for want of room
	Delivered uint64 `json:"delivered"`
	Dropped   uint64 `json:"dropped"`
	Lost      uint64 `json:"lost"`
	Gaps      uint64 `json:"gaps"`
	Late      uint64 `json:"late"`
	Again     uint64 `json:"again,omitempty"` // samples that a reader had delivered before
}

// ofMap is an account's part of one map.
type ofMap struct{ samples, losses, lost, again uint64 }

// results adds the results of each map.
func (l *ledger) results(all map[string]*mapResult, stats []perfbuf.Stats, seen []workload.CPUCounts) {
	for m, st := range stats {
		total, r := st.Total(), all[mapNames[m]]
		if r == nil {
			r = &mapResult{}
			all[mapNames[m]] = r
		}
		r.Dropped += total.Dropped
		r.Lost += total.Lost
		r.Late += st.Late
		for cpu := range seen {
			r.Delivered += l.accounts[cpu].maps[m].samples
			r.Gaps += l.accounts[cpu].maps[m].losses
			r.Again += l.accounts[cpu].maps[m].again
			c := seen[cpu].To(workload.Map(m))
			r.Outputs += c.Written + c.Full
		}
	}
}

// conservedMaps checks that each map's outputs are accounted for. Where several CPUs write one ring
// buffer its counts are for all, but deliveries are by CPU everywhere.
//
// If readers of a map came and went, events may have been dropped, and be late. Of a ring buffer,
// some come again to the next reader, and no reader reports outputs that fail while there is none.
func (v *verdict) conservedMaps(l *ledger, life *life, seen []workload.CPUCounts, exact bool) {
	var late, lateSeen uint64
	for cpu := range l.accounts {
		lateSeen += l.accounts[cpu].late
	}
	for m, st := range life.all() {
		late += st.Late
		name, changing := mapNames[m], l.changing && m > 0
		var ok, full, delivered, lost uint64
		for cpu := range seen {
			c, a := seen[cpu].To(workload.Map(m)), l.accounts[cpu].maps[m]
			ok, full, delivered, lost = ok+c.Written, full+c.Full, delivered+a.samples, lost+a.lost
			if a.samples != c.Written && !changing || a.samples > c.Written+a.again {
				v.no("%s, CPU %d: %d outputs succeeded, %d were delivered", name, cpu, c.Written, a.samples)
			}
			if a.lost > c.Full || isRingBuf(m) && a.lost != c.Full && !changing {
				v.no("%s, CPU %d: %d outputs failed for want of room, %d came as losses", name, cpu, c.Full, a.lost)
			}
		}
		t := st.Total()
		if sum := t.Samples + t.Dropped; t.Samples != delivered || sum < ok || sum > ok && !(changing && isRingBuf(m)) {
			v.no("%s: %d outputs succeeded, %d were delivered, Stats has %d samples and %d dropped", name, ok, delivered, t.Samples, t.Dropped)
		}
		if (isRingBuf(m) && !changing || !isRingBuf(m) && exact) && t.Lost != full || t.Lost > full || lost > t.Lost {
			v.no("%s: %d outputs failed for want of room, Stats has %d lost, and %d came as losses", name, full, t.Lost, lost)
		}
		if st.Late > 0 && !changing {
			v.no("%s: %d events were late in exact mode, by up to %v", name, st.Late, st.MaxLateness)
		}
	}
	if !life.dropLate && late != lateSeen {
		v.no("Stats.Late is %d, but %d late events were delivered", late, lateSeen)
	}
}
