package flight

import (
	"math"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

const ever = math.MaxUint64 - 1

// A copy has the newest whole records, oldest first, wherever the ring's edge lies.
func TestCopyAtEveryOffset(t *testing.T) {
	for extra := range 9 {
		r := ringtest.NewOverwritten(512)
		size := 32 + 8*extra
		for n := range uint64(200) {
			c := take(r, ever)
			fit := min(int(n), 512/size)
			var want []got
			for i := n - uint64(fit); i < n; i++ {
				want = append(want, got{100 + i, i})
			}
			require.Equal(t, want, events(c))
			require.Equal(t, fit, len(c.places))
			require.Equal(t, raw.FaultNone, c.fault)
			switch {
			case int(n)*size <= 512:
				require.Zero(t, c.since)
			case fit < nested:
				require.Equal(t, uint64(ever+1), c.since)
			default:
				require.Equal(t, 100+n-uint64(fit)+nested, c.since) // one more than the oldest six
			}
			r.Output(100+n, n, extra)
		}
	}
}

// check gives up bytes that are overwritten during the copy or the wait, published or not.
func TestCheck(t *testing.T) {
	for newer := range 48 { // words, 4 to a record
		r := ringtest.NewOverwritten(256) // 8 records
		for n := range uint64(20) {
			r.Output(n, n, 0)
		}
		c := newCopy(r.Raw, nested)
		for range newer { // their bytes are there, and no head
			r.Put(math.MaxUint64)
		}
		c.take()
		r.Publish()
		c.check()
		c.index(ever)
		var want []got
		for n := uint64(12 + (newer+3)/4); n < 20; n++ {
			want = append(want, got{n, n})
		}
		require.Equalf(t, want, events(c), "%d newer words", newer)
	}
}

// Nothing is missing that came before the ring had its event.
func TestSinceBegan(t *testing.T) {
	r := ringtest.NewOverwritten(512)
	for n := range uint64(20) {
		r.Output(n, n, 0)
	}
	c := newCopy(r.Raw, nested)
	c.began = 15
	c.take()
	c.check()
	c.index(ever)
	require.Equal(t, uint64(15), c.since)
}

func TestKeep(t *testing.T) {
	r := ringtest.NewOverwritten(1024)
	for n := range uint64(10) {
		r.Output(10*n, n, 0)
	}
	for _, test := range []struct{ from, until, first, n uint64 }{{0, ever, 0, 10}, {0, 90, 0, 10}, {1, 89, 1, 8}, {10, 80, 1, 8}, {50, 50, 5, 1}, {91, ever, 0, 0}, {60, 20, 0, 0}} {
		c := take(r, test.until)
		c.keep(test.from)
		all := events(c)
		require.Lenf(t, all, int(test.n), "%+v", test)
		for i, ev := range all {
			require.Equal(t, test.first+uint64(i), ev.number)
		}
	}
}

// Outputs that interrupt others come out of order; a loss stays in front of what reports it.
func TestOrderWithinARing(t *testing.T) {
	r := ringtest.NewOverwritten(1024)
	r.Output(10, 0, 0)
	r.Output(30, 2, 0) // interrupted the next between its time and its place
	r.Output(20, 1, 0)
	r.PutSample(40, 3, 0)
	r.Put(lost(40, 7)...)
	r.Publish()
	r.Output(40, 4, 0)
	r.PutSample(60, 6, 0)
	r.Put(lost(60, 8)...)
	r.Publish()
	r.Output(50, 5, 0)
	c := take(r, ever)
	require.Equal(t, []got{{10, 0}, {20, 1}, {30, 2}, {40, 1007}, {40, 3}, {40, 4}, {50, 5}, {60, 1008}, {60, 6}}, events(c))
	inOrder([]*ringCopy{c})(func(ev raw.Event) bool {
		if ev.Kind() == raw.Lost {
			require.Equal(t, map[uint64]uint64{40: 20, 60: 40}[ev.Time()], ev.Odd().After)
			require.Equal(t, 3, ev.CPU())
		}
		return true
	})
}

// A lost output may be later than the oldest remaining records, as many as can nest with it. It is
// never later than since.
func TestSinceWithNesting(t *testing.T) {
	r := ringtest.NewOverwritten(512) // 16 records
	// The kernel will overwrite this one. It interrupted five others, which have their times and
	// reserve from the innermost on.
	r.Output(60, 0, 0)
	for n := range uint64(5) {
		r.Output(50-10*n, 1+n, 0)
	}
	for n := range uint64(11) {
		r.Output(100+n, 10+n, 0)
	}
	c := take(r, ever)
	require.Equal(t, 16, len(c.places))
	require.Greater(t, c.since, uint64(60))
	require.Equal(t, uint64(101), c.since)
}

func TestMerge(t *testing.T) {
	var copies []*ringCopy
	var want []got
	for n := range uint64(7) {
		r := ringtest.NewOverwritten(1 << 12)
		for i := range 5 * n {
			r.Output(n+7*i, n+7*i, 0)
		}
		copies = append(copies, take(r, ever))
	}
	for n := range uint64(7 * 30) {
		if cpu := n % 7; n/7 < 5*cpu {
			want = append(want, got{n, n})
		}
	}
	require.Equal(t, want, events(copies...))
	n := 0
	inOrder(copies)(func(raw.Event) bool { n++; return n < 10 })
	require.Equal(t, 10, n)
}

// Impossible headers end the parse.
func TestFaults(t *testing.T) {
	for fault, words := range map[raw.Fault][]uint64{
		raw.FaultZero: {9, 0, 0}, raw.FaultUnaligned: {9 | 25<<48, 0, 0}, raw.FaultRawSize: {9 | 24<<48, 0, 70000}, raw.FaultShort: {9 | 16<<48, 0},
		raw.FaultBeyondHead: {9 | 4096<<48, 0, 0},
	} {
		r := ringtest.NewOverwritten(1024)
		for n := range uint64(5) {
			r.Output(n, n, 0)
		}
		r.Put(words...)
		for n := range uint64(10) {
			r.Output(100+n, 100+n, 0)
		}
		c := take(r, ever)
		require.Equal(t, fault, c.fault)
		require.Equal(t, uint64(10*32), c.off)
		require.Equal(t, 10, len(c.places))
		require.Equal(t, uint64(106), c.since)
	}
}

// Parsing reads nothing outside of the copy, and always ends.
func FuzzCopy(f *testing.F) {
	f.Add(uint64(0), uint64(0), []byte{}, -1)
	f.Add(^uint64(99), uint64(64), []byte("\x09\x00\x00\x00\x00\x00\x20\x00aaaaaaaa\x08\x00\x00\x00bbbb"), 0)
	f.Add(^uint64(1023), uint64(0), []byte("\x02\x00\x00\x00\x00\x00\x20\x00aaaaaaaa\x08\x00\x00\x00bbbb"), 4)
	f.Fuzz(func(t *testing.T, head, newer uint64, data []byte, timeAt int) {
		r := ringtest.NewOverwritten(1024)
		for i := range r.Data() {
			if len(data) > 0 {
				r.Data()[i] = data[i%len(data)]
			}
		}
		if timeAt > 1<<16 || timeAt < 0 {
			timeAt = -1
		}
		r.SetHead(head)
		r.Raw.SetFields(timeAt, -1)
		c := newCopy(r.Raw, nested)
		c.take()
		r.SetHead(head - newer)
		c.check()
		c.index(ever)
		c.keep(0)
		n, last := 0, uint64(0)
		inOrder([]*ringCopy{c})(func(ev raw.Event) bool {
			require.GreaterOrEqual(t, ev.Time(), last)
			last = ev.Time()
			require.LessOrEqual(t, ev.Len(), 1024)
			for range ev.Bytes() {
			}
			n++
			return true
		})
		require.Equal(t, len(c.places), n)
		require.LessOrEqual(t, n, 1024/8)
	})
}
