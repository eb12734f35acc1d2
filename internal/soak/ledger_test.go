//go:build linux && cgo

package main

import (
	"encoding/binary"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

var testPattern = func() (words []uint64) {
	for i := range slotWords {
		words = append(words, uint64(i)<<32|0xabcdef)
	}
	return words
}()

// output makes the payload that soak.bpf.c would.
func output(cpu, level int, seq, time uint64, size int) []byte {
	w1 := uint64(cpu)<<32 | uint64(level)<<24 | 1<<16 | uint64(size)
	b := make([]byte, 0, size+16)
	for _, w := range []uint64{seq, w1, time, mix(mix(mix(0, seq), w1), time)} {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	for _, w := range testPattern[seq%patternSlots+4:] {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return append(b[:size:size], make([]byte, (size+4+7)&^7-4-size)...)
}

func TestDecodeFindsDamage(t *testing.T) {
	l := newLedger(testPattern, true)
	for _, size := range []int{minSize, minSize + 1, 61, maxSize} {
		good := output(3, 1, 1000, 77, size)
		p, err := decode(good, l.pattern)
		require.NoError(t, err)
		require.Equal(t, payload{seq: 1000, cpu: 3, level: 1, source: 1, size: size, time: 77}, p)
		for i := range size {
			bad := append([]byte(nil), good...)
			bad[i] ^= 4
			_, err := decode(bad, l.pattern)
			require.Errorf(t, err, "byte %d of %d", i, size)
		}
		_, err = decode(good[:len(good)-8], l.pattern)
		require.Error(t, err)
	}
}

// What a ledger must object to, and what not.
func TestLedger(t *testing.T) {
	type step func(*ledger)
	sample := func(cpu, level int, seq, time uint64, late bool) step {
		return func(l *ledger) {
			l.order(cpu, time, late)
			l.sample(cpu, time, output(cpu, level, seq, time, 40))
		}
	}
	loss := func(cpu int, n, time uint64) step {
		return func(l *ledger) { l.order(cpu, time, false); l.loss(cpu, n, 0, time) }
	}
	for name, c := range map[string]struct {
		steps []step
		want  string
	}{
		"good": {[]step{
			sample(0, 0, 0, 10, false), sample(1, 0, 0, 11, false), sample(0, 1, 0, 12, false), sample(0, 0, 1, 12, false),
		}, ""},
		"late":           {[]step{sample(0, 0, 0, 10, false), sample(1, 0, 0, 9, true)}, ""},
		"unmarked":       {[]step{sample(0, 0, 0, 10, false), sample(1, 0, 0, 9, false)}, "not marked"},
		"wrongly marked": {[]step{sample(0, 0, 0, 10, false), sample(1, 0, 0, 10, true)}, "marked late"},
		"twice":          {[]step{sample(0, 0, 0, 10, false), sample(0, 0, 0, 10, false)}, "comes again"},
		"exchanged":      {[]step{sample(0, 0, 1, 10, false), sample(0, 0, 0, 10, false)}, "comes again"},
		"of another CPU": {[]step{func(l *ledger) {
			l.sample(1, 10, output(0, 0, 0, 10, 40))
		}}, "says it is of CPU 0"},
		"another time": {[]step{func(l *ledger) {
			l.sample(0, 10, output(0, 0, 0, 10+2*clockError, 40))
		}}, "has a payload of"},
		"loss in between": {[]step{sample(0, 0, 0, 10, false), loss(0, 3, 20), sample(0, 0, 4, 20, false)}, ""},
		"loss soon after": {[]step{sample(0, 0, 0, 10, false), sample(0, 0, 4, 20, false), loss(0, 3, 21)}, ""},
		"loss of nothing": {[]step{loss(0, 0, 20)}, "0 lost"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(testPattern, true)
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

func TestVerdict(t *testing.T) {
	// Three outputs on CPU 0, of which two were delivered; one on CPU 1, refused for another reason.
	type outcome struct {
		l     *ledger
		stats perfbuf.Stats
		seen  []perCPU
		exact bool
	}
	for name, c := range map[string]struct {
		change func(*outcome)
		want   []string
	}{
		"good":                      {func(*outcome) {}, nil},
		"an unreported loss":        {func(o *outcome) { o.stats.Rings[0].Lost = 0 }, []string{"2 samples", "Lost is 0"}},
		"the same before Linux 6.0": {func(o *outcome) { o.stats.Rings[0].Lost, o.exact = 0, false }, nil},
		"a loss too many": {func(o *outcome) { o.stats.Rings[0].Lost, o.exact = 2, false },
			[]string{"2 samples", "Lost is 2"}},
		"an event too few": {func(o *outcome) { o.seen[0].Slots[0].Attempted++; o.seen[0].Slots[0].OK++ },
			[]string{"3 outputs succeeded, 2 were delivered", "4 outputs, but"}},
		"miscounted": {func(o *outcome) { o.stats.Rings[0].Samples++ }, []string{"3 samples", "2 samples were delivered"}},
		"wrong interval": {func(o *outcome) {
			o.l.sample(1, 20, output(1, 0, 0, 20, 40))
			o.l.sample(1, 21, output(1, 0, 2, 21, 40))
			o.l.loss(1, 1, 21, 22)
			o.l.loss(1, 1, 21, 23) // by then all is explained
			o.stats.Rings[1].Samples, o.stats.Rings[1].Lost = 2, 2
			o.seen[1].Slots = [levels]slot{{Attempted: 4, OK: 2, ENOSPC: 2}}
		}, []string{"CPU 1: 1 losses were before"}},
		"late": {func(o *outcome) { o.stats.Late, o.l.late = 1, 1 }, []string{"late in exact mode"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := outcome{l: newLedger(testPattern, true), seen: make([]perCPU, 2), exact: true}
			for seq := range uint64(2) {
				o.l.order(0, 10+seq, false)
				o.l.sample(0, 10+seq, output(0, 0, seq, 10+seq, 40))
			}
			o.stats.Rings = []perfbuf.RingStats{{CPU: 0, Samples: 2, Lost: 1}, {CPU: 1}}
			o.seen[0].Slots[0] = slot{Attempted: 3, OK: 2, ENOSPC: 1}
			o.seen[1].Slots[2] = slot{Attempted: 1, EBUSY: 1}
			c.change(&o)
			res := &result{Mode: "exact"}
			res.verify(o.l, o.stats, o.seen, o.exact)
			require.Len(t, res.Violations, len(c.want), res.Violations)
			for i, want := range c.want {
				require.Contains(t, res.Violations[i], want)
			}
		})
	}
}
