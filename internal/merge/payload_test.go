package merge_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// Keys of payloads: out of order, missing, above the ceiling. The model knows which.
func TestKeysOfPayloads(t *testing.T) {
	for seed := range uint64(12) {
		for _, noTime := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed %d, no time %v", seed, noTime), func(t *testing.T) {
				s := newSim(t, seed, 1+int(seed%3), 1024)
				s.bench = setup{
					rings: 1 + int(seed%3), size: 1024, start: math.MaxUint64 - 1023,
					keyed: true, noTime: noTime, spill: 2048 * int(seed%2),
				}.bench(t)
				s.chooseKeys = true
				s.run(func() uint64 { return s.clock - min(s.clock, 20+s.rnd.Uint64N(100)) })
				require.NotZero(t, s.inversions)
				require.NotZero(t, s.keyless)
				require.NotZero(t, s.lost)
			})
		}
	}
}

// Without times and keys, rings come one after the other, each as it was written.
func TestNoTimeAndNoKey(t *testing.T) {
	b := setup{rings: 3, size: 512, noTime: true, spill: 512}.bench(t)
	for i := range uint64(20) {
		b.output(int(i*7%3), i, 12)
	}
	for b.output(1, 0, 12) {
	}
	b.scanAll()
	b.spill(1)
	b.lose(1, 5)
	b.round(all)
	b.output(1, 9, 12)
	b.round(all)
	b.empty()
}

// The time may lie anywhere in a payload that lies anywhere, and beyond its end.
func TestTimeAtAnyOffset(t *testing.T) {
	const n = 36
	for at := uint64(0); at < 128; at += 8 { // wraps at every word
		for _, i := range []int{0, 1, 4, 7, 8, 20, 27, 28, 29, 36, 60, math.MaxInt - math.MaxInt/2, math.MaxInt - 7, math.MaxInt} {
			r := ringtest.New(128, raw.LayoutRawTime, at)
			body := make([]byte, n)
			for j := range body {
				body[j] = byte(j + 1)
			}
			require.NoError(t, r.Output(5, body))
			ring := r.Raw()
			ring.SetFields(i, -1)
			m := merge.New([]*raw.Ring{ring}, merge.Options{}, func(int, uint64) {})
			want, found := uint64(5), merge.Found{Keyless: 1}
			if i+8 <= n && i >= 0 && i < n {
				want, found = binary.NativeEndian.Uint64(body[i:]), merge.Found{}
			}
			require.Equal(t, found, m.Scan(0, r.Head(), math.MaxUint64, 0), "at %d", i)
			m.Begin(all)
			it := next(m)
			require.Equal(t, want, it.Key, "at %d", i)
			require.Equal(t, want, it.Time)
			require.Equal(t, body, it.Data)
			require.Nil(t, next(m))
			m.End()
		}
	}
}

// Where a payload's key cannot be believed, the record's time is next, and if that cannot be either, the
// record is corrupt.
func TestKeysThatAreNotBelieved(t *testing.T) {
	for _, c := range []struct {
		key   uint64
		ok    bool
		time  uint64
		want  out
		found merge.Found
	}{
		{100, true, 7, out{0, raw.Sample, 100, false}, merge.Found{}},
		{100, true, 101, out{0, raw.Sample, 100, false}, merge.Found{}},
		{101, true, 7, out{0, raw.Sample, 7, false}, merge.Found{Keyless: 1, Bad: 1}},
		{101, true, 100, out{0, raw.Sample, 100, false}, merge.Found{Keyless: 1, Bad: 1}},
		{3, false, 7, out{0, raw.Sample, 7, false}, merge.Found{Keyless: 1}},
		{3, false, 101, out{0, raw.Corrupt, 0, false}, merge.Found{Keyless: 1}},
	} {
		r, at := ringtest.New(128, raw.LayoutRawTime, 0), 4
		if !c.ok {
			at = 5 // too near to the end
		}
		ring := r.Raw()
		ring.SetFields(at, -1)
		m := merge.New([]*raw.Ring{ring}, merge.Options{}, func(int, uint64) {})
		require.NoError(t, r.Output(c.time, binary.NativeEndian.AppendUint64(make([]byte, 4, 12), c.key)))
		require.Equal(t, c.found, m.Scan(0, r.Head(), 100, 0))
		require.Equal(t, []out{c.want}, drain(t, m, all, 2))
	}
}
