//go:build linux && cgo

package perfbuf_test

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// Sizes are rounded to those that the kernel can map, and can be read back.
func TestKernelSizes(t *testing.T) {
	e := kerneltest.Load(t)
	page := os.Getpagesize()
	n := len(open(t, e, perfbuf.Options{}).Rings())
	for _, c := range []struct {
		opts perfbuf.Options
		want int
	}{
		{perfbuf.Options{}, 256 << 10},
		{perfbuf.Options{RingBytes: 1}, page},
		{perfbuf.Options{RingBytes: page - 1}, page},
		{perfbuf.Options{RingBytes: page}, page},
		{perfbuf.Options{RingBytes: page + 1}, 2 * page},
		{perfbuf.Options{RingBytes: 3 * page}, 4 * page},
		{perfbuf.Options{RingBytes: 1 << 20}, 1 << 20},
		{perfbuf.Options{RingBytes: 4 << 20}, 4 << 20},
		{perfbuf.Options{TotalBytes: n * page}, page},
		{perfbuf.Options{TotalBytes: 2*n*page - 1}, page},
		{perfbuf.Options{TotalBytes: 2 * n * page}, 2 * page},
		{perfbuf.Options{TotalBytes: 7 * n * page}, 4 * page},
	} {
		r := open(t, e, c.opts)
		got := r.Options()
		require.Equal(t, c.want, got.RingBytes, "%+v", c.opts)
		require.Zero(t, got.TotalBytes, "%+v", c.opts)
		require.Equal(t, perfbuf.Wakeup{PollInterval: 5 * time.Millisecond}, got.Wakeup)
		require.Len(t, got.CPUs, n)
		for i, ring := range r.Rings() {
			require.Equal(t, c.want, ring.Size())
			require.Equal(t, c.want, r.Stats().Rings[i].Size)
			require.Equal(t, got.CPUs[i], ring.CPU())
			// It really is that large: it takes as many outputs as fit, and not one more.
			const size = 4000
			if c.want > page {
				fit := (c.want - 1) / recordSize(size)
				_, before := e.Counts(ring.CPU())
				e.Emit(ring.CPU(), fit+1, size)
				_, after := e.Counts(ring.CPU())
				require.Equal(t, before+1, after, "%+v", c.opts)
			}
		}
		require.NoError(t, r.Close())
	}
}

func TestKernelBadOptions(t *testing.T) {
	e := kerneltest.Load(t)
	for _, opts := range []perfbuf.Options{
		{RingBytes: -1},
		{RingBytes: math.MinInt},
		{RingBytes: math.MaxInt},
		{RingBytes: 1 << 40},
		{RingBytes: 1<<30 + 1},
		{TotalBytes: -1},
		{TotalBytes: math.MinInt},
		{TotalBytes: 1},
		{TotalBytes: os.Getpagesize() - 1},
		{RingBytes: 4096, TotalBytes: 1 << 20},
		{Wakeup: perfbuf.Wakeup{Events: -1}},
		{Wakeup: perfbuf.Wakeup{Bytes: -1}},
		{Wakeup: perfbuf.Wakeup{PollInterval: -1}},
		{Wakeup: perfbuf.Wakeup{Events: 2, Bytes: 2}},
		{Wakeup: perfbuf.Wakeup{Events: math.MaxInt}},
		{Wakeup: perfbuf.Wakeup{Bytes: math.MaxInt}},
		{RingBytes: 8192, Wakeup: perfbuf.Wakeup{Bytes: 4097}},
	} {
		require.ErrorContains(t, openFails(t, e.MapFD(), opts), "perfbuf.Options: ", "%+v", opts)
	}
}

func TestKernelWakeupOptions(t *testing.T) {
	e := kerneltest.Load(t)
	for _, c := range []struct{ opt, want perfbuf.Wakeup }{
		{perfbuf.Wakeup{}, perfbuf.Wakeup{PollInterval: 5 * time.Millisecond}},
		{perfbuf.Wakeup{Events: 1, PollInterval: time.Second}, perfbuf.Wakeup{Events: 1}},
		{perfbuf.Wakeup{Events: 2}, perfbuf.Wakeup{Events: 2, PollInterval: 10 * time.Millisecond}},
		{perfbuf.Wakeup{Events: 2, PollInterval: time.Second}, perfbuf.Wakeup{Events: 2, PollInterval: time.Second}},
		{perfbuf.Wakeup{Bytes: 1}, perfbuf.Wakeup{Bytes: 1, PollInterval: 10 * time.Millisecond}},
		{perfbuf.Wakeup{Bytes: 128 << 10}, perfbuf.Wakeup{Bytes: 128 << 10, PollInterval: 10 * time.Millisecond}},
	} {
		r := open(t, e, perfbuf.Options{Wakeup: c.opt})
		require.Equal(t, c.want, r.Options().Wakeup)
		requireReads(t, e, r)
		require.NoError(t, r.Close())
	}
}

// What Options and Rings return is the caller's to change.
func TestKernelCopies(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{})
	cpu := r.Options().CPUs[0]
	r.Options().CPUs[0] = 99
	r.Rings()[0] = nil
	require.Equal(t, cpu, r.Options().CPUs[0])
	require.Equal(t, cpu, r.Rings()[0].CPU())
}

// What Options name is the caller's to change too, once the reader is open.
func TestKernelOptionsAreCopied(t *testing.T) {
	kerneltest.RequireCPUs(t, 2, "one to read, and another")
	e := kerneltest.Load(t)
	all := open(t, e, perfbuf.Options{}).Options().CPUs
	cpus := []int{all[0]}
	r := open(t, e, perfbuf.Options{CPUs: cpus})
	cpus[0] = all[1]
	require.NoError(t, r.Replug())
	require.NoError(t, r.Stats().Hotplug.Err)
	require.Equal(t, all[:1], r.Options().CPUs)
}
