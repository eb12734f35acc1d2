//go:build linux && cgo

package perfchan_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
	"github.com/stretchr/testify/require"
)

// bothRingBufs runs a test with libbpfgo's InitRingBuf and with ours.
func bothRingBufs(t *testing.T, f func(t *testing.T, e *kerneltest.RingEmitter, init func(name string, events chan []byte) (channels, error))) {
	t.Run("libbpfgo", func(t *testing.T) {
		e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
		f(t, e, func(name string, events chan []byte) (channels, error) {
			return notNil(e.Module().InitRingBuf(name, events))
		})
	})
	t.Run("perfchan", func(t *testing.T) {
		e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
		f(t, e, func(name string, events chan []byte) (channels, error) {
			return notNil(perfchan.InitRingBuf(e.Module(), name, events))
		})
	})
}

// Each event arrives once, unchanged, in the order of outputs, in its own memory. Events output
// before Poll arrive too. Stop closes the channel.
func TestKernelRingBufEvents(t *testing.T) {
	bothRingBufs(t, func(t *testing.T, e *kerneltest.RingEmitter, init func(string, chan []byte) (channels, error)) {
		events := make(chan []byte)
		b, err := init("shared", events)
		require.NoError(t, err)
		defer b.Close()
		cpus := onlineCPUs(t)
		next := map[int]uint64{}
		for _, cpu := range cpus {
			next[cpu], _ = e.Counts(cpu)
			e.Emit(cpu, kerneltest.RingEmit{Count: 1, Size: 40})
		}
		b.Poll(300)
		var all [][]byte
		for size := kerneltest.MinSize; size < 2000; size += 31 { // several laps
			for _, cpu := range cpus {
				all = append(all, <-events) // of the round before
				p, err := kerneltest.CheckRing(all[len(all)-1])
				require.NoError(t, err)
				require.Equal(t, cpu, p.CPU)
			}
			for _, cpu := range cpus {
				e.Emit(cpu, kerneltest.RingEmit{Count: 1, Size: size})
			}
		}
		for range cpus {
			all = append(all, <-events)
		}
		for i := range all {
			p, err := kerneltest.CheckRing(all[i])
			require.NoError(t, err)
			require.Equal(t, next[p.CPU], p.Seq)
			next[p.CPU]++
			clear(all[i][:cap(all[i])]) // changes no other
		}
		b.Stop()
		_, open := <-events
		require.False(t, open)
		b.Stop()
		b.Close()
		b.Close()
	})
}

func TestKernelRingBufErrors(t *testing.T) {
	bothRingBufs(t, func(t *testing.T, e *kerneltest.RingEmitter, init func(string, chan []byte) (channels, error)) {
		leak.Check(t)
		for name, events := range map[string]chan []byte{"nothing": make(chan []byte), "shared": nil, "states": make(chan []byte)} {
			b, err := init(name, events)
			require.Error(t, err, name)
			require.Nil(t, b, name)
			t.Log(err)
		}
	})
}

// A ring buffer that is added has a channel of its own, before Poll and after it.
func TestKernelAddRingBuf(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	leak.Check(t)
	m := mapsByName{"shared": fd(e.FD(workload.Shared))}
	for cpu, name := range []string{"first", "second"} {
		m[name] = fd(kerneltest.NewRingBuf(t, 1<<16))
		e.SetShard(cpu, int(m[name]))
	}
	shared, first, second := make(chan []byte), make(chan []byte, 4), make(chan []byte)
	b, err := perfchan.InitRingBuf(m, "shared", shared)
	require.NoError(t, err)
	defer b.Close()
	added, err := perfchan.AddRingBuf(m, b, "first", first)
	require.NoError(t, err)
	require.True(t, added)
	b.Start()
	added, err = perfchan.AddRingBuf(m, b, "second", second)
	require.NoError(t, err)
	require.True(t, added)
	added, err = perfchan.AddRingBuf(m, b, "third", make(chan []byte))
	require.ErrorContains(t, err, `perfchan.AddRingBuf: map "third": no such map`)
	require.False(t, added)
	for cpu, events := range []chan []byte{first, second}[:min(2, len(onlineCPUs(t)))] {
		e.Emit(cpu, kerneltest.RingEmit{Count: 1, Size: 40, To: "shard"})
		p, err := kerneltest.CheckRing(<-events)
		require.NoError(t, err)
		require.Equal(t, cpu, p.CPU)
	}
	e.Emit(0, kerneltest.RingEmit{Count: 1, Size: 40})
	<-shared
	require.Len(t, b.Stats(), 3)
	require.NoError(t, b.Err())
	b.Stop()
	for _, events := range []chan []byte{shared, first, second} {
		_, open := <-events
		require.False(t, open)
	}
	_, err = perfchan.AddRingBuf(m, b, "first", make(chan []byte))
	require.ErrorContains(t, err, "stopped or closed")
	b.Start()
	require.ErrorContains(t, b.Err(), "after Stop or Close")
}
