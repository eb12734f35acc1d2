//go:build linux && cgo

package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A record's length has 16 bits, and the kernel does not refuse a larger record: the length wraps.
const (
	largestSafe = 65508 // 8 + 8 + 4 + 65508 = 65528
	sizeZero    = 65509 // a record of 65536 bytes: a length of 0, and data_head does not move
)

// eachSource runs a test with the rings read by a Reader and by a Stream.
func eachSource(t *testing.T, opts perfbuf.Options, f func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream)) {
	for name, stream := range map[string]func(testing.TB, *perfbuf.Reader) *perfbuf.Stream{"unordered": unordered, "ordered": ordered} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, opts)
			f(t, e, r, stream(t, r))
		})
	}
}

// The largest payload that is not too large, also around the ring's edge.
func TestKernelLargest(t *testing.T) {
	eachSource(t, perfbuf.Options{RingBytes: 256 << 10}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		cpu := r.Rings()[0].CPU()
		for range 20 {
			require.NoError(t, e.EmitHuge(cpu, largestSafe))
			e.Emit(cpu, 1, 24)
			recs := collect(t, src)
			require.Len(t, recs, 2)
			require.Len(t, recs[0].Data, largestSafe)
			require.NoError(t, kerneltest.CheckHuge(recs[0].Data))
			_, err := kerneltest.Check(recs[1].Data)
			require.NoError(t, err)
		}
		require.Zero(t, r.Stats().Total().Corrupt)
	})
}

// A record whose length wrapped is found out, skipped and reported, and reading goes on behind it.
func TestKernelOversize(t *testing.T) {
	eachSource(t, perfbuf.Options{RingBytes: 256 << 10}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		ring := r.Rings()[0]
		offset := uint64(0)
		for i := range uint64(8) {
			e.Emit(ring.CPU(), 5, 56)
			used := ring.Used()
			require.NoError(t, e.EmitHuge(ring.CPU(), 70000))
			skipped := ring.Used() - used
			require.Equal(t, recordSize(70000)&0xffff, skipped)

			recs := collect(t, src)
			require.Len(t, recs, 6)
			for _, rec := range recs[:5] {
				_, err := kerneltest.Check(rec.Data)
				require.NoError(t, err)
			}
			corrupt := recs[5]
			require.Equal(t, perfbuf.KindCorrupt, corrupt.Kind)
			require.Equal(t, recs[4].Time, corrupt.Time)
			require.Equal(t, ring.CPU(), corrupt.CPU)
			require.Empty(t, corrupt.Data)
			var err *perfbuf.CorruptError
			require.ErrorAs(t, corrupt.Err, &err)
			require.Equal(t, ring.CPU(), err.CPU)
			require.Equal(t, offset+uint64(used), err.Offset)
			require.Equal(t, uint64(skipped), err.Skipped)
			require.Contains(t, err.Error(), "65509")
			require.Zero(t, ring.Used())
			require.Equal(t, i+1, r.Stats().Rings[0].Corrupt)
			offset += uint64(used + skipped)
		}
		e.Emit(ring.CPU(), 5, 56)
		require.Len(t, collect(t, src), 5)
	})
}

// A length of 0: data_head stays where it is, but 64 KiB are written behind it.
func TestKernelOversizeZero(t *testing.T) {
	eachSource(t, perfbuf.Options{RingBytes: 256 << 10}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		ring := r.Rings()[0]
		l := newLedger(t)
		for range 20 {
			e.Emit(ring.CPU(), 5, 56)
			used := ring.Used()
			require.NoError(t, e.EmitHuge(ring.CPU(), sizeZero))
			require.Equal(t, used, ring.Used(), "the output left no trace")
			e.Emit(ring.CPU(), 5, 56)
			require.NoError(t, src.ForEach(l.add))
		}
		require.EqualValues(t, 200, l.delivered(), "nothing else was touched")
	})
}

// Every way in which a length wraps, in both layouts, and the sizes just below: payloads that fit
// arrive whole, those that leave no trace in the ring go unnoticed, and all others are reported in
// order. Reading always goes on.
func TestKernelOversizeSizes(t *testing.T) {
	for _, noTime := range []bool{false, true} {
		for name, mode := range map[string]perfbuf.Order{"unordered": perfbuf.Unordered(), "slack": perfbuf.Slack(0), "exact": {}} {
			t.Run(fmt.Sprintf("%s, no time %v", name, noTime), func(t *testing.T) {
				e := kerneltest.Load(t)
				opts := perfbuf.Options{RingBytes: 256 << 10, NoTime: noTime}
				if noTime && name != "unordered" {
					opts.Time = perfbuf.PayloadTime(0) // a small number, and so an old time
				}
				r := open(t, e, opts)
				s := openStream(t, r, perfbuf.StreamOptions{Order: mode})
				oversizeSizes(t, e, r, s)
			})
		}
	}
}

func oversizeSizes(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
	fixed := 16 // header and time
	if r.Options().NoTime {
		fixed = 8
	}
	ring, corrupt := r.Rings()[0], uint64(0)
	take := func(n int) (recs []perfbuf.Record) {
		for len(recs) < n {
			require.NoError(t, src.Wait(t.Context()))
			recs = append(recs, collect(t, src)...)
		}
		require.Len(t, recs, n)
		return recs
	}
	check := func(rec perfbuf.Record) {
		require.Equal(t, perfbuf.KindSample, rec.Kind, "%v", rec.Err)
		_, err := kerneltest.Check(rec.Data)
		require.NoError(t, err)
	}
	for _, size := range []int{65493, 65500, 65501, 65508, 65509, 65516, 65517, 65524, 65525, 65532, 65533, 65536, 65540, 70000, 100000, kerneltest.MaxHuge} {
		full := fixed + (4+size+7)&^7
		offset := r.Stats().Rings[0].Bytes
		e.Emit(ring.CPU(), 1, 24)
		offset += uint64(ring.Used())
		require.NoError(t, e.EmitHuge(ring.CPU(), size))
		switch {
		case full <= 65535:
			recs := take(2)
			check(recs[0])
			require.Len(t, recs[1].Data, full-fixed-4, "%d bytes", size)
			require.NoError(t, kerneltest.CheckHuge(recs[1].Data[:size&^7]))
		case full == 65536:
			check(take(1)[0])
		default:
			recs := take(2)
			check(recs[0])
			var err *perfbuf.CorruptError
			require.ErrorAs(t, recs[1].Err, &err, "%d bytes", size)
			require.Equal(t, perfbuf.KindCorrupt, recs[1].Kind)
			require.Equal(t, ring.CPU(), recs[1].CPU)
			// An event without a time follows the one before, and is never late
			if !recs[0].Late {
				require.Equal(t, recs[0].Time, recs[1].Time)
			}
			require.Equal(t, ring.CPU(), err.CPU)
			require.Equal(t, []uint64{offset, uint64(full & 0xffff)}, []uint64{err.Offset, err.Skipped}, "%d bytes", size)
			corrupt++
		}
		e.Emit(ring.CPU(), 3, 56)
		for _, rec := range take(3) {
			check(rec)
		}
		require.Zero(t, ring.Used())
		require.Equal(t, corrupt, r.Stats().Rings[0].Corrupt)
	}
	require.NotZero(t, corrupt)
}

// The same where it goes once around a small ring and over everything unread in it: with nonsense,
// and with zeros, on which a reader that trusts a record's length never comes to an end.
func TestKernelOversizeSmallRing(t *testing.T) {
	for name, word := range map[string]func(int) uint64{
		"nonsense": nil,
		"zeros":    func(int) uint64 { return 0 },
		// Each a sample of 8 bytes: a bare header
		"headers": func(int) uint64 { return 8<<48 | 9 },
	} {
		t.Run(name, func(t *testing.T) { overwriteSmallRing(t, word) })
	}
}

func overwriteSmallRing(t *testing.T, word func(int) uint64) {
	eachSource(t, perfbuf.Options{RingBytes: 8 << 10}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		if word != nil {
			e.SetHuge(word)
		}
		rnd := rand.New(rand.NewPCG(6, 7))
		for range 200 {
			for _, ring := range r.Rings() {
				e.Emit(ring.CPU(), rnd.IntN(60), 24+rnd.IntN(100))
				if err := e.EmitHuge(ring.CPU(), sizeZero+rnd.IntN(kerneltest.MaxHuge-sizeZero)); err != nil {
					require.Equal(t, syscall.ENOSPC, err)
				}
				e.Emit(ring.CPU(), rnd.IntN(20), 24+rnd.IntN(100))
			}
			collect(t, src) // the pass must end
			for _, ring := range r.Rings() {
				require.Zero(t, ring.Used())
			}
		}
		require.NotZero(t, r.Stats().Total().Corrupt)
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 1, 24) // reports the losses
		}
		collect(t, src)
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 20, 24)
			recs := collect(t, src)
			require.Len(t, recs, 20)
			for _, rec := range recs {
				_, err := kerneltest.Check(rec.Data)
				require.NoError(t, err)
			}
		}
	})
}

// Outputs that write over what is being read. Nothing can be said of the bytes; but reads stay
// within the ring and come to an end.
func TestKernelOversizeDuringPass(t *testing.T) {
	eachSource(t, perfbuf.Options{RingBytes: 8 << 10}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		ring := r.Rings()[0]
		rnd := rand.New(rand.NewPCG(8, 9))
		for range 100 {
			e.Emit(ring.CPU(), 40, 56)
			require.NoError(t, src.ForEach(func(ev perfbuf.Event) error {
				if rnd.IntN(10) == 0 {
					e.EmitHuge(ring.CPU(), sizeZero)
				}
				if n := len(ev.Bytes()); n > ring.Size() {
					t.Errorf("%d bytes", n)
				}
				ev.Record()
				return nil
			}))
		}
		collect(t, src)
		require.Zero(t, ring.Used())
		e.Emit(ring.CPU(), 5, 56)
		require.Len(t, collect(t, src), 5)
	})
}
