//go:build linux && cgo

package perfbuftest_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

// The same outputs to the real kernel and to the simulation give the same records, read in the same
// way. Ordered streams are excluded: their requests to the kernel depend on timing.
func TestSameAsTheKernel(t *testing.T) {
	for _, ringBytes := range []int{4096, 16 << 10, 256 << 10} {
		for _, noTime := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, no time %v", ringBytes, noTime), func(t *testing.T) {
				o := perfbuf.Options{RingBytes: ringBytes, NoTime: noTime}
				kernel := loadReal(t, o)
				o.CPUs = kernel.r.Options().CPUs
				fake := newFake(t, o)
				rnd := rand.New(rand.NewPCG(uint64(ringBytes), 1))
				for range 120 {
					step(t, rnd, o.CPUs, kernel, fake)
				}
				for _, s := range []*side{kernel, fake} {
					s.read(t, -1)
					for _, cpu := range o.CPUs { // reports the losses
						s.emit(cpu, 1, kerneltest.MinSize)
					}
					s.read(t, -1)
					s.emit(o.CPUs[0], 10, kerneltest.MinSize)
				}
				compare(t, kernel, fake)
				require.NotZero(t, kernel.kinds[perfbuf.KindSample])
				require.NotZero(t, kernel.kinds[perfbuf.KindLost])
				require.NotZero(t, kernel.kinds[perfbuf.KindCorrupt])
			})
		}
	}
}

// step performs one action on both sides and compares the results.
func step(t *testing.T, rnd *rand.Rand, cpus []int, sides ...*side) {
	t.Helper()
	cpu := cpus[rnd.IntN(len(cpus))]
	count, size := rnd.IntN(60), kerneltest.MinSize+rnd.IntN(200)
	if rnd.IntN(4) == 0 { // to the brim
		count, size = kerneltest.MaxCount, kerneltest.MinSize+rnd.IntN(kerneltest.MaxSize-kerneltest.MinSize)
	}
	huge := 0
	switch rnd.IntN(12) {
	case 0:
		huge = 65500 + rnd.IntN(24) // around the largest that fits a record
	case 1:
		huge = 65600 + rnd.IntN(2000) // the head goes on a little
	case 2:
		huge = rnd.IntN(kerneltest.MaxHuge)
	}
	read := rnd.IntN(3)
	stopAfter := 1 + rnd.IntN(100)
	var did []string
	for _, s := range sides {
		if huge > 0 {
			err := s.emitHuge(cpu, huge)
			did = append(did, fmt.Sprint("huge ", cpu, huge, err))
		} else {
			s.emit(cpu, count, size)
		}
		for i, ring := range s.r.Rings() {
			attempted, failed := s.counts(ring.CPU())
			did = append(did, fmt.Sprint(ring.CPU(), ring.Used(), attempted, failed, s.r.Stats().Rings[i].Lost))
		}
		switch read {
		case 0:
			s.read(t, -1)
		case 1:
			s.read(t, stopAfter)
		}
	}
	require.Equal(t, did[:len(did)/2], did[len(did)/2:], "CPU %d: %d of %d bytes, huge: %d", cpu, count, size, huge)
}

// side is a kernel and the records read from it.
type side struct {
	r        *perfbuf.Reader
	s        *perfbuf.Stream
	recs     []perfbuf.Record
	kinds    map[perfbuf.Kind]int
	emit     func(cpu, count, size int)
	emitHuge func(cpu, size int) error
	counts   func(cpu int) (attempted, failed uint64)
	tick     func()
}

func newSide(t *testing.T, r *perfbuf.Reader) *side {
	t.Cleanup(func() { r.Close() })
	return &side{r: r, s: unordered(t, r), tick: func() {}, kinds: map[perfbuf.Kind]int{}}
}

func loadReal(t *testing.T, o perfbuf.Options) *side {
	t.Helper()
	e := kerneltest.Load(t)
	r, err := perfbuf.Open(e.MapFD(), o)
	require.NoError(t, err)
	s := newSide(t, r)
	s.emit, s.emitHuge, s.counts = e.Emit, e.EmitHuge, e.Counts
	return s
}

func newFake(t *testing.T, o perfbuf.Options) *side {
	t.Helper()
	k := perfbuftest.New(perfbuftest.Options{CPUs: slices.Max(o.CPUs) + 1})
	r, err := k.Open(o)
	require.NoError(t, err)
	s := newSide(t, r)
	s.tick = func() { k.Advance(time.Nanosecond) } // no two outputs at the same time
	attempted := map[int]uint64{}
	failed := map[int]uint64{}
	s.emit = func(cpu, count, size int) {
		for range count {
			s.tick()
			p := workload.Payload{Seq: attempted[cpu], CPU: cpu, Source: workload.Run, Size: size, Time: k.Now()}
			if k.Output(cpu, p.Bytes()) != nil {
				failed[cpu]++
			}
			attempted[cpu]++
		}
	}
	s.emitHuge = func(cpu, size int) error {
		s.tick()
		return k.Output(cpu, pattern[:size])
	}
	s.counts = func(cpu int) (uint64, uint64) { return attempted[cpu], failed[cpu] }
	return s
}

// pattern holds the bytes of kerneltest's huge outputs.
var pattern = func() (b []byte) {
	for i := range kerneltest.MaxHuge / 8 {
		b = binary.NativeEndian.AppendUint64(b, workload.Pattern(i))
	}
	return b
}()

// read reads all available events, or n of them.
func (s *side) read(t *testing.T, n int) {
	t.Helper()
	s.tick()
	_, err := perfbuf.Fold(s.s, 0, func(_ int, ev perfbuf.Event) (int, error) {
		s.recs = append(s.recs, ev.Record())
		s.kinds[ev.Kind()]++
		if n--; n == 0 {
			return 0, perfbuf.ErrStop
		}
		return 0, nil
	})
	require.NoError(t, err)
}

func compare(t *testing.T, kernel, fake *side) {
	t.Helper()
	require.Equal(t, len(kernel.recs), len(fake.recs))
	ranks := [2]func(uint64) uint64{ranks(kernel.recs), ranks(fake.recs)}
	for i := range kernel.recs {
		for n, rec := range []*perfbuf.Record{&kernel.recs[i], &fake.recs[i]} {
			rec.Source = ""
			rec.Time, rec.LostAfter = ranks[n](rec.Time), ranks[n](rec.LostAfter)
			rec.Data = unpadded(rec.Data)
		}
		if !reflect.DeepEqual(kernel.recs[i], fake.recs[i]) { // which is faster
			require.Equal(t, kernel.recs[i], fake.recs[i], "record %d", i)
		}
	}
	stats := func(s *side) perfbuf.Stats {
		all := s.r.Stats()
		all.Displaced.OwnedUntil = 0 // of the real kernel, the time of the latest look
		return all
	}
	require.Equal(t, stats(kernel), stats(fake))
	for _, s := range []*side{kernel, fake} {
		require.NoError(t, s.r.Close())
		<-s.r.Done()
	}
	require.Equal(t, stats(kernel), stats(fake), "what was dropped included")
}

// unpadded zeroes possible padding, which is old memory and may have been a time. It also zeroes
// the time in the payload, and its checksum.
func unpadded(b []byte) []byte {
	n := len(b) - 7
	if p, err := kerneltest.Check(b); err == nil {
		n = p.Size
		clear(b[workload.TimeOffset:min(n, workload.CheckedSize)])
	}
	clear(b[max(0, n):])
	return b
}

// ranks numbers the times of records in their order: on both sides no two outputs have the same.
func ranks(recs []perfbuf.Record) func(uint64) uint64 {
	var times []uint64
	for _, rec := range recs {
		times = append(times, rec.Time, rec.LostAfter)
	}
	slices.Sort(times)
	times = slices.Compact(times)
	return func(time uint64) uint64 {
		i, _ := slices.BinarySearch(times, time)
		return uint64(i)
	}
}
