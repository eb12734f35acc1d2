package stream

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// A record whose time no clock can have shown must not make others wait.
func TestTimeInTheFutureDoesNotHoldTheRingUp(t *testing.T) {
	const ceiling = 1000
	h := byHand(t, 0, perfRings(512, 448)...)
	h.write(0, 10, ceiling, ceiling+1, 20, ^uint64(0), 30)
	// A loss's own time is not used: it takes that of the sample behind it, and here there is none.
	h.perf(0).Put(ringtest.TypeLost, binary.NativeEndian.AppendUint64([]byte{7: 0, 8: 1, 15: 0}, math.MaxUint64))
	require.Equal(t, findings{inversions: 2}, h.rings[0].scanTo(h.writers[0].Head(), ceiling, 0), "20 and 30, behind 1000")
	h.begin(all)
	for _, want := range []struct {
		kind     raw.Kind
		key, off uint64
		fault    raw.Fault
	}{
		{raw.Sample, 10, 0, 0}, {raw.Sample, 20, 96, 0}, {raw.Sample, 30, 160, 0}, {raw.Sample, ceiling, 32, 0},
		{raw.Corrupt, ceiling, 64, raw.FaultTime}, {raw.Corrupt, ceiling, 128, raw.FaultTime}, {raw.Lost, ceiling, 192, 0},
	} {
		it := next(h.merger)
		require.NotNil(t, it)
		require.Equal(t, []any{want.kind, want.key, want.off, want.fault}, []any{it.Kind, it.Key, it.Off - 448, it.Fault})
		require.Equal(t, uint64(32), it.Size)
		require.False(t, it.Late)
	}
	require.Nil(t, next(h.merger))
	h.end()
	h.drained()
}

// The kernel publishes no such heads: something else wrote to the metadata page. The kernel's next
// record puts it right.
func TestHeads(t *testing.T) {
	h := byHand(t, 1024, perfRings(512, wrap, 0)...)
	h.write(0, 10, 20, 15)
	h.rings[0].scanTo(h.writers[0].Head(), forever, 7)
	for _, back := range []uint64{8, 96, 104, 1 << 20, 1 << 62, 1 << 63} {
		require.Zero(t, h.rings[0].scanTo(h.writers[0].Head()-back, forever, 8))
		require.Equal(t, []uint64{h.writers[0].Head(), 7}, []uint64{h.rings[0].scan, h.rings[0].stampedUpTo()})
	}
	h.scanned(0, 30)
	h.round(samples(0, 10, 15, 20, 30)...)

	h.write(1, 40)
	h.writers[1].SetHead(1 << 40)
	h.scan(1)
	h.round(out{1, raw.Corrupt, 30, false})
	h.scanned(1, 50)
	h.round(samples(1, 50)...)
	h.drained()

	// Offsets are compared by their difference, even with one copied out long ago.
	start := h.writers[0].Head()
	h.scanned(0, 60)
	require.Equal(t, uint64(32), h.spill(0))
	require.NotZero(t, h.rings[0].ahead(start+1<<62-8))
	require.Zero(t, h.rings[0].ahead(start+1<<62))
}

// Overwrite the record before an early one after the scan. The others must stay where they are.
func TestRecordWrittenOverBeforeAnEarlyOne(t *testing.T) {
	for name, c := range map[string]struct {
		word  int // of the record
		bytes []byte
		still bool // is a sample of its time
		spill int
	}{
		"another type": {0, []byte{77, 0, 0, 0, 0, 0, 32, 0}, false, 0},
		"of another type, it seems to hold the early one too": {0, []byte{77, 0, 0, 0, 0, 0, 64, 0}, false, 0},
		"a loss":                            {0, []byte{2, 0, 0, 0, 0, 0, 32, 0}, false, 0},
		"corrupt":                           {0, []byte{9, 0, 0, 0, 0, 0, 4, 0}, false, 0},
		"beyond the head":                   {0, []byte{9, 0, 0, 0, 0, 0, 136, 0}, false, 0},
		"another time":                      {1, []byte{21, 0, 0, 0, 0, 0, 0, 0}, false, 0},
		"another time, copied out":          {1, []byte{21, 0, 0, 0, 0, 0, 0, 0}, false, 512},
		"raw_size too large":                {2, []byte{13, 0, 0, 0}, false, 0},
		"larger, but a sample of this time": {0, []byte{9, 0, 0, 0, 0, 0, 64, 0}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, c.spill, perfRings(512, wrap)...)
			h.scanned(0, 10, 20, 15, 30, 40)
			copy(h.writers[0].Data()[512-32+8*c.word:], c.bytes)
			require.Equal(t, c.spill > 0, h.spill(0) > 0)
			h.begin(all)
			for _, key := range []uint64{10, 15, 20, 30, 40} {
				it := next(h.merger)
				require.Equal(t, []any{key, key, false}, []any{it.Key, it.Time, it.Late})
				if key != 20 || c.still {
					require.Equal(t, raw.Sample, it.Kind)
					continue
				}
				want := raw.Odd{Kind: raw.Corrupt, Fault: raw.FaultChanged, Off: wrap + 32, Size: 8, Time: 20}
				require.Equal(t, want, it.Odd)
			}
			require.Nil(t, next(h.merger))
			h.end()
			h.drained()
			h.scanned(0, 60, 50, 70)
			h.round(samples(0, 50, 60, 70)...) // the ring has recovered
		})
	}
}

// A busy record whose length changes is damaged. One with an incredible time, or none, goes with
// those before it.
func TestBusyRecordsThatAreNotBelieved(t *testing.T) {
	w := ringtest.NewRingBuf(1024, wrap)
	h := byHand(t, 0, w)
	longer, shorter := h.reserve(0, 10, 8), h.reserve(0, 10, 24)
	future, empty := h.reserve(0, 1001, 8), h.reserve(0, 10, 0)
	h.write(0, 10)
	h.rings[0].scanTo(w.Head(), 1000, 0)
	w.SetHeader(longer.Off, 300)
	w.SetHeader(shorter.Off, 8)
	future.Commit(0)
	empty.Commit(0)
	require.Equal(t, findings{keyless: 2, bad: 2}, h.rings[0].scanTo(w.Head(), 1000, 0))
	require.Zero(t, len(h.rings[0].busy))
	h.scanned(0, 11)
	corrupt := out{0, raw.Corrupt, 10, false}
	h.round(append([]out{corrupt, corrupt}, samples(0, 10, 10, 10, 11)...)...)
	h.drained()
}

// The scan that found the first busy record, and whether that is still busy.
func TestFirstBusyRecord(t *testing.T) {
	w := ringtest.NewRingBuf(1024, wrap)
	h := byHand(t, 0, w)
	first, second := h.reserve(0, 10, 8), h.reserve(0, 10, 24)
	require.Zero(t, h.rings[0].committed())
	h.rings[0].scanTo(w.Head(), forever, 100)
	h.reserve(0, 10, 8)
	h.rings[0].scanTo(w.Head(), forever, 200)
	require.Equal(t, uint64(100), h.rings[0].busy[0].found)
	second.Commit(0)
	require.Zero(t, h.rings[0].committed())
	first.Commit(0)
	require.Equal(t, uint64(16), h.rings[0].committed())
	h.rings[0].scanTo(w.Head(), forever, 300)
	require.Equal(t, uint64(200), h.rings[0].busy[0].found)
}

// Losses outside of the model: other forms in which the kernel, or a recording, reports them.
func TestLosses(t *testing.T) {
	body := func(words ...uint64) (b []byte) {
		for _, w := range words {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
		return b
	}
	first := ringtest.New(256, raw.LayoutRawTime, 0)
	for first.Output(5, ringtest.Payload(1, 12)) == nil {
	}
	first.SetTail(first.Head()) // read before the merger began
	for name, c := range map[string]struct {
		ring *ringtest.Ring
		body []byte
		want raw.Odd
	}{
		"at the beginning of all":             {first, nil, raw.Odd{Lost: 1, After: 0, Time: 20}},
		"without a time of its own":           {ringtest.New(256, raw.LayoutRawTime, 0), body(0, 3), raw.Odd{Lost: 3, Time: 20}},
		"of nothing, an interrupt's has all":  {ringtest.New(256, raw.LayoutRawTime, 0), body(0, 0, 15), raw.Odd{}},
		"of a recording, counted by programs": {ringtest.New(256, raw.LayoutRawTime, 0), body(12, 4, 15, 3), raw.Odd{Lost: 4, After: 12, Time: 15, CPU: 3, Counted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, 0, c.ring)
			keys := []uint64{20}
			if c.body != nil {
				h.write(0, 10)
				c.ring.Put(ringtest.TypeLost, c.body)
				keys = []uint64{10, 20}
			}
			h.scanned(0, 20)
			require.Equal(t, c.want.Lost, h.reported(0))
			h.begin(all)
			for it := next(h.merger); it != nil; it = next(h.merger) {
				if it.Kind == raw.Lost {
					require.Equal(t, keys[len(keys)-1], uint64(20), "before the sample that follows")
					it.Kind, it.Off, it.Size = 0, 0, 0
					require.Equal(t, c.want, it.Odd)
					c.want = raw.Odd{}
					continue
				}
				require.Equal(t, keys[0], it.Key)
				keys = keys[1:]
			}
			h.end()
			require.Empty(t, keys)
			require.Zero(t, c.want, "delivered")
			h.drained()
		})
	}
}

// A round ends before it delivers an added loss, and more were added meanwhile. The test does not
// fix how many events they become.
func TestRoundGivenUpBeforeAnAddedLoss(t *testing.T) {
	h := byHand(t, 0, perfRings(512, wrap)...)
	h.scanned(0, 1, 2, 3, 4, 5)
	h.lose(0, 2, 4)
	h.begin(12)
	for range 3 {
		require.Equal(t, raw.Sample, next(h.merger).Kind)
	}
	h.lose(0, 1, 3)
	h.end()
	h.lose(0, 1, 30)
	h.begin(all)
	sum, last := uint64(0), uint64(0)
	for it := next(h.merger); it != nil; it = next(h.merger) {
		require.GreaterOrEqual(t, it.Key, last)
		require.LessOrEqual(t, it.After, it.Key)
		last = it.Key
		sum += it.Lost
	}
	h.end()
	require.Equal(t, uint64(4), sum)
	h.drained()
}

// The time may lie anywhere in a payload that lies anywhere, and beyond its end.
func TestTimeAtAnyOffset(t *testing.T) {
	body := make([]byte, 36)
	for j := range body {
		body[j] = byte(j + 1)
	}
	for start := uint64(0); start < 128; start += 8 { // wraps at every word
		for _, at := range []int{0, 1, 4, 7, 8, 20, 27, 28, 29, 36, 60, math.MaxInt - math.MaxInt/2, math.MaxInt - 7, math.MaxInt} {
			r := ringtest.New(128, raw.LayoutRawTime, start)
			require.NoError(t, r.Output(5, body))
			ring := r.Raw()
			ring.SetFields(at, -1)
			m := newMerger(0, func(int, uint64) {})
			m.add(&Ring{Raw: ring})
			want, found := uint64(5), findings{keyless: 1}
			if at <= len(body)-8 {
				want, found = binary.NativeEndian.Uint64(body[at:]), findings{}
			}
			require.Equal(t, found, m.rings[0].scanTo(r.Head(), math.MaxUint64, 0), "at %d", at)
			m.begin(all)
			it := next(m)
			require.Equal(t, []any{want, want, body}, []any{it.Key, it.Time, it.Data}, "at %d", at)
			require.Nil(t, next(m))
			m.end()
		}
	}
}

// A sample with an incredible key is ordered by its record's time. If that is incredible too, the
// record is corrupt.
func TestKeysThatAreNotBelieved(t *testing.T) {
	for _, c := range []struct {
		key, time uint64
		at        int // 5 is too near the end
		want      out
		found     findings
	}{
		{100, 7, 4, out{0, raw.Sample, 100, false}, findings{}},
		{100, 101, 4, out{0, raw.Sample, 100, false}, findings{}},
		{101, 7, 4, out{0, raw.Sample, 7, false}, findings{keyless: 1, bad: 1}},
		{101, 100, 4, out{0, raw.Sample, 100, false}, findings{keyless: 1, bad: 1}},
		{3, 7, 5, out{0, raw.Sample, 7, false}, findings{keyless: 1}},
		{3, 101, 5, out{0, raw.Corrupt, 0, false}, findings{keyless: 1}},
	} {
		r := ringtest.New(128, raw.LayoutRawTime, 0)
		h := byHand(t, 0)
		ring := r.Raw()
		ring.SetFields(c.at, -1)
		h.add(&Ring{Raw: ring})
		require.NoError(t, r.Output(c.time, binary.NativeEndian.AppendUint64(make([]byte, 4, 12), c.key)))
		require.Equal(t, c.found, h.rings[0].scanTo(r.Head(), 100, 0))
		h.round(c.want)
	}
}
