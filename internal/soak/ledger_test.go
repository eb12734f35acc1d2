//go:build linux && cgo

package main

import (
	"math/rand/v2"
	"testing"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func testLedger(cpus int) *ledger {
	l := newLedger(cpus, rand.New(rand.NewPCG(1, 1)))
	l.ordered = true
	l.markers.restart(make([]workload.CPUCounts, cpus))
	return l
}

// output makes a payload as a program does, padded.
func output(cpu, level int, seq, time uint64, size int) []byte {
	p := workload.Payload{Seq: seq, CPU: cpu, Level: level, Source: workload.Syscall, Size: size, Time: time}
	return append(p.Bytes(), make([]byte, workload.Padded(size)-size)...)
}

type step func(*ledger)

func sampleStep(cpu, level int, seq, time uint64, late bool) step {
	return func(l *ledger) {
		l.record(perfbuf.Record{
			Source: mapNames[0], Kind: perfbuf.KindSample, CPU: cpu, Time: time, Late: late, Data: output(cpu, level, seq, time, 40),
		})
	}
}

func changing(l *ledger) { l.changing = true }

// sourceStep delivers one of a map, of CPU 0.
func sourceStep(m int, seq, time uint64, late bool) step {
	return func(l *ledger) {
		rec := perfbuf.Record{Kind: perfbuf.KindSample, Source: "none", Time: time, Late: late, Data: output(0, 0, seq, time, 40)}
		if m >= 0 {
			rec.Source = mapNames[m]
		}
		if m >= 0 && isRingBuf(m) {
			rec.Data = rec.Data[:40]
		}
		l.record(rec)
	}
}

func lossStep(cpu int, n, after, time uint64) step {
	return func(l *ledger) {
		l.record(perfbuf.Record{Source: mapNames[0], Kind: perfbuf.KindLost, CPU: cpu, Time: time, Lost: n, LostAfter: after})
	}
}

// What a ledger must object to, and what not.
func TestLedger(t *testing.T) {
	unordered := func(l *ledger) { l.ordered = false }
	settled := func(l *ledger) { l.settled() }
	complete := func(l *ledger) { l.watermark = func() uint64 { return 20 } }
	for name, c := range map[string]struct {
		steps []step
		want  string
	}{
		"good": {[]step{
			sampleStep(0, 0, 0, 10, false), sampleStep(1, 0, 0, 11, false), sampleStep(0, 1, 0, 12, false), sampleStep(0, 0, 1, 12, false),
		}, ""},
		"late":                            {[]step{sampleStep(0, 0, 0, 10, false), sampleStep(1, 0, 0, 9, true)}, ""},
		"unmarked":                        {[]step{sampleStep(0, 0, 0, 10, false), sampleStep(1, 0, 0, 9, false)}, "not marked"},
		"unordered":                       {[]step{unordered, sampleStep(0, 0, 0, 10, false), sampleStep(1, 0, 0, 9, false)}, ""},
		"unordered, late":                 {[]step{unordered, sampleStep(0, 0, 0, 10, true)}, "was not ordered"},
		"wrongly marked":                  {[]step{sampleStep(0, 0, 0, 10, false), sampleStep(1, 0, 0, 10, true)}, "marked late"},
		"late, though nothing later came": {[]step{complete, sampleStep(0, 0, 0, 20, true)}, ""},
		"wrongly marked, by a watermark":  {[]step{complete, sampleStep(0, 0, 0, 21, true)}, "marked late"},
		"unmarked, by a watermark":        {[]step{complete, sampleStep(0, 0, 0, 20, false)}, "up to 20 is complete"},
		"twice, with changes":             {[]step{changing, sampleStep(0, 0, 0, 10, false), sampleStep(0, 0, 0, 10, false)}, "comes again"},
		"of a source that was away":       {[]step{changing, sampleStep(0, 0, 4, 10, false), sourceStep(1, 1, 9, true)}, ""},
		"of a ring buffer, twice":         {[]step{changing, sourceStep(2, 2, 10, false), sourceStep(2, 2, 10, false)}, ""},
		"of a ring buffer that stays":     {[]step{sourceStep(2, 2, 10, false), sourceStep(2, 2, 10, false)}, "comes again"},
		"of another map":                  {[]step{sourceStep(1, 2, 10, false)}, "comes from more"},
		"of no source":                    {[]step{sourceStep(-1, 2, 10, false)}, `of the reader "none"`},
		"twice":                           {[]step{sampleStep(0, 0, 0, 10, false), sampleStep(0, 0, 0, 10, false)}, "comes again"},
		"again, later":                    {[]step{sampleStep(0, 0, 0, 10, false), settled, sampleStep(0, 0, 0, 10, false)}, "comes again"},
		"exchanged":                       {[]step{sampleStep(0, 0, 1, 10, false), sampleStep(0, 0, 0, 10, false)}, "comes again"},
		"of another CPU": {[]step{func(l *ledger) {
			l.record(perfbuf.Record{Source: mapNames[0], Kind: perfbuf.KindSample, CPU: 1, Time: 10, Data: output(0, 0, 0, 10, 40)})
		}}, "says it is of CPU 0"},
		"not padded": {[]step{func(l *ledger) {
			l.record(perfbuf.Record{Source: mapNames[0], Kind: perfbuf.KindSample, Time: 10, Data: output(0, 0, 0, 10, 41)[:41]})
		}}, "no padding"},
		"damaged": {[]step{func(l *ledger) {
			b := output(0, 0, 0, 10, 40)
			b[39] ^= 4
			l.record(perfbuf.Record{Source: mapNames[0], Kind: perfbuf.KindSample, Time: 10, Data: b})
		}}, "byte 39"},
		"of no CPU": {[]step{func(l *ledger) {
			l.record(perfbuf.Record{Source: mapNames[0], Kind: perfbuf.KindSample, CPU: 2, Time: 10, Data: output(2, 0, 0, 10, 40)})
		}}, "is of CPU 2, which cannot be"},
		"another time": {[]step{func(l *ledger) {
			l.record(perfbuf.Record{Source: mapNames[0], Kind: perfbuf.KindSample, Time: 10, Data: output(0, 0, 0, 10+2*clockError, 40)})
		}}, "has a payload of"},
		"corrupt": {[]step{func(l *ledger) {
			l.record(perfbuf.Record{Source: mapNames[0], Kind: perfbuf.KindCorrupt, Err: &perfbuf.CorruptError{Reason: "garbage"}})
		}}, "garbage"},
		"loss in between": {[]step{sampleStep(0, 0, 0, 10, false), lossStep(0, 3, 0, 20), sampleStep(0, 0, 4, 20, false)}, ""},
		"loss soon after": {[]step{sampleStep(0, 0, 0, 10, false), sampleStep(0, 0, 4, 20, false), lossStep(0, 3, 0, 21)}, ""},
		"loss of nothing": {[]step{lossStep(0, 0, 0, 20)}, "0 lost"},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLedger(2)
			for _, s := range c.steps {
				s(l)
			}
			if c.want == "" {
				require.Empty(t, l.first)
				return
			}
			require.Len(t, l.first, 1)
			require.Contains(t, l.first[0], c.want)
		})
	}
}

// A marker must come behind what had been output before Flush was called.
func TestMarkers(t *testing.T) {
	seen := func(last uint64) []workload.CPUCounts {
		c := make([]workload.CPUCounts, 2)
		c[1].Levels[0] = workload.Counts{Attempted: last, Written: last, Last: last}
		return c
	}
	call := func(last uint64) step { return func(l *ledger) { l.markers.call(seen(last)) } }
	marker := func(l *ledger) {
		l.record(perfbuf.Record{Kind: perfbuf.KindFlushed, CPU: -1, Time: perfbuf.Now()})
	}
	for name, c := range map[string]struct {
		steps   []step
		want    string
		checked int
	}{
		"good":            {[]step{sampleStep(1, 0, 0, 10, false), call(1), marker}, "", 1},
		"too early":       {[]step{sampleStep(1, 0, 0, 10, false), call(2), marker}, "before number 1", 1},
		"before all":      {[]step{call(1), marker}, "before number 0", 1},
		"two calls":       {[]step{sampleStep(1, 0, 1, 10, false), call(1), call(2), marker}, "", 2},
		"with changes":    {[]step{changing, sampleStep(1, 0, 0, 10, false), call(1), call(3), marker}, "", 1},
		"too early, too":  {[]step{changing, sampleStep(1, 0, 0, 10, false), call(5), marker}, "before number 4", 1},
		"another's event": {[]step{func(l *ledger) { l.markers.restart(seen(7)) }, call(7), marker}, "", 0},
		"a call later": {[]step{func(l *ledger) {
			at := perfbuf.Now()
			call(1)(l)
			l.record(perfbuf.Record{Kind: perfbuf.KindFlushed, CPU: -1, Time: at - 1})
		}}, "", 0},
		"of a CPU": {[]step{func(l *ledger) { l.record(perfbuf.Record{Kind: perfbuf.KindFlushed}) }}, "a marker has CPU 0", 0},
		"before an older event, with a slack": {[]step{func(l *ledger) {
			l.record(perfbuf.Record{Kind: perfbuf.KindFlushed, CPU: -1, Time: 20})
		}, sampleStep(1, 0, 0, 10, false)}, "", 0},
		"out of order": {[]step{sampleStep(1, 0, 0, 10, false), func(l *ledger) {
			l.record(perfbuf.Record{Kind: perfbuf.KindFlushed, CPU: -1, Time: 9})
		}}, "comes 1 ns before", 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLedger(2)
			for _, s := range c.steps {
				s(l)
			}
			require.EqualValues(t, c.checked, l.markers.checked)
			if c.want == "" {
				require.Empty(t, l.first)
				return
			}
			require.Len(t, l.first, 1)
			require.Contains(t, l.first[0], c.want)
		})
	}
}
