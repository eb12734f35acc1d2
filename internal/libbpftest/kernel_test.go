//go:build linux

package libbpftest

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T, p *program) (r *perfbuf.Reader, cpus []int) {
	t.Helper()
	r, err := perfbuf.Open(p.ary, perfbuf.Options{RingBytes: os.Getpagesize()})
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	cpus, err = cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	require.Len(t, r.Rings(), len(cpus))
	return r, cpus
}

// numbers reads the rings, and returns the numbers of each CPU's samples, and its losses.
func numbers(t *testing.T, r *perfbuf.Reader) (got map[int][]uint64, lost map[int]uint64) {
	t.Helper()
	got, lost = map[int][]uint64{}, map[int]uint64{}
	payloads := perfbuf.NewDecoder[payload]()
	s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	defer s.Close()
	_, err = perfbuf.Fold(s, 0, func(n int, ev perfbuf.Event) (int, error) {
		switch ev.Kind() {
		case perfbuf.KindSample:
			p, ok := payloads.Decode(ev)
			require.True(t, ok)
			require.EqualValues(t, ev.CPU(), p.CPU)
			got[ev.CPU()] = append(got[ev.CPU()], p.Number)
		case perfbuf.KindLost:
			lost[ev.CPU()] += ev.Lost()
		default:
			t.Errorf("%v: %v", ev.Kind(), ev.Err())
		}
		return n + 1, nil
	})
	require.NoError(t, err)
	return got, lost
}

// Every output arrives, from every CPU, over several laps of the rings; after Close there are no
// rings.
func TestKernelRead(t *testing.T) {
	p := load(t)
	r, cpus := open(t, p)
	const each, laps = 20, 30
	for lap := range uint64(laps) {
		want := map[int][]uint64{}
		for n := range uint64(each) {
			for _, cpu := range cpus {
				require.NoError(t, p.output(cpu, lap*each+n))
				want[cpu] = append(want[cpu], lap*each+n)
			}
		}
		got, lost := numbers(t, r)
		require.Equal(t, want, got)
		require.Empty(t, lost)
	}
	for _, ring := range r.Stats().Rings {
		require.EqualValues(t, laps*each, ring.Samples)
	}
	require.NoError(t, r.Close())
	for _, cpu := range cpus {
		require.Equal(t, syscall.ENOENT, p.output(cpu, 0))
	}
}

// An output to a full ring is refused, and reported as lost with the next output that fits.
func TestKernelLost(t *testing.T) {
	p := load(t)
	r, cpus := open(t, p)
	cpu := cpus[len(cpus)-1]
	var refused uint64
	written := []uint64{}
	for n := uint64(0); refused < 7; n++ {
		if err := p.output(cpu, n); err != nil {
			require.Equal(t, syscall.ENOSPC, err)
			refused++
		} else {
			written = append(written, n)
		}
	}
	got, _ := numbers(t, r)
	require.Equal(t, written, got[cpu])
	require.NoError(t, p.output(cpu, 1<<40))
	got, lost := numbers(t, r)
	require.Equal(t, map[int][]uint64{cpu: {1 << 40}}, got)
	require.Equal(t, map[int]uint64{cpu: refused}, lost)
}

// A stream in exact mode delivers outputs made in turns on all CPUs in that order, and ends
// complete. Its grace periods come from maps that libbpf makes.
func TestKernelExact(t *testing.T) {
	p := load(t)
	r, cpus := open(t, p)
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	next := uint64(0)
	for range 25 {
		for _, cpu := range cpus {
			require.NoError(t, p.output(cpu, next))
			next++
		}
	}
	var got []uint64
	payloads := perfbuf.NewDecoder[payload]()
	require.NoError(t, s.Drain(context.Background(), func(ev perfbuf.Event) error {
		v, ok := payloads.Decode(ev)
		require.True(t, ok, "%v", ev.Kind())
		got = append(got, v.Number)
		return nil
	}))
	require.Len(t, got, int(next))
	for i, n := range got {
		require.EqualValues(t, i, n)
	}
}

// A refused Open takes libbpf's error apart.
func TestKernelWrongMap(t *testing.T) {
	load(t) // or skip
	array, err := bpf.MapCreate(bpf.MapTypeArray, "array", 4, 4, 1, 0)
	require.NoError(t, err)
	defer syscall.Close(array)
	_, err = perfbuf.Open(array, perfbuf.Options{})
	require.ErrorContains(t, err, "array")
	info, err := bpf.GetMapInfo(array)
	require.NoError(t, err)
	require.Equal(t, bpf.MapInfo{ID: info.ID, Type: bpf.MapTypeArray, Name: "array", KeySize: 4, ValueSize: 4, MaxEntries: 1}, info)
}

// The libbpf that runs is the one whose headers were compiled against.
func TestVersion(t *testing.T) {
	v, err := libbpf.Version()
	if !libbpf.Available {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		return
	}
	require.NoError(t, err)
	t.Logf("%+v", v)
	require.Equal(t, v.Headers, v.Version)
}
