package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// lives has a simulation live for 5 s, and returns what each process did, in order. All outputs must be read or
// reported as lost. In a bubble it takes no time.
func lives(t *testing.T, o SimulationOptions, ringBytes int) (did map[uint32][]string, read, lost uint64) {
	t.Helper()
	did = map[uint32][]string{}
	synctest.Test(t, func(t *testing.T) {
		s := NewSimulation(o)
		r, err := s.Open(perfbuf.Options{RingBytes: ringBytes})
		require.NoError(t, err)
		stream, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		require.NoError(t, s.Attach())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		event := func(ev perfbuf.Event) error {
			if ev.Kind() == perfbuf.KindLost {
				return nil
			}
			e, err := Decode(ev)
			did[e.PID] = append(did[e.PID], fmt.Sprint(e.Kind, ev.CPU(), e.Comm(), e.File(), e.TID, e.ChildPID, e.ChildTID, e.Code))
			read++
			return err
		}
		require.ErrorIs(t, stream.Run(ctx, event), context.DeadlineExceeded)
		require.NoError(t, s.Detach())
		require.NoError(t, stream.Drain(context.Background(), event))
		s.Close()
		require.NoError(t, r.Close())
		<-r.Done()
		written, full := s.Counts()
		lost = r.Stats().Total().Lost
		require.Equal(t, []uint64{written, full}, []uint64{read, lost})
	})
	return did, read, lost
}

func TestSimulation(t *testing.T) {
	did, read, lost := lives(t, SimulationOptions{CPUs: 4, Rate: 400}, 1<<20)
	require.Zero(t, lost)
	require.InDelta(t, 5*400, read, 500)
	// A process is forked before it runs a program, and does that before it ends, on whichever CPUs.
	for pid, events := range did {
		if pid < 1000+uint32(len(families)) { // these were there before
			continue
		}
		require.True(t, strings.HasPrefix(events[0], "exec"), events)
		for i, e := range events[1:] {
			require.False(t, strings.HasPrefix(e, "exec"), events)
			require.False(t, strings.HasPrefix(e, "exit") && i+2 < len(events), events)
		}
	}

	_, read, lost = lives(t, SimulationOptions{}, 4<<10)
	require.InDelta(t, 5*50, read+lost, 100)
	_, _, lost = lives(t, SimulationOptions{CPUs: 1, Rate: 1000}, 4<<10)
	require.NotZero(t, lost, "a pool of threads is too much for such a ring")
	_, read, _ = lives(t, SimulationOptions{Rate: 20_000, Events: 1000}, 1<<20)
	require.EqualValues(t, 1000, read)
	_, read, _ = lives(t, SimulationOptions{Rate: 1e-9}, 0)
	require.Zero(t, read)
}

// Each process does the same in each run of a seed.
func TestSeed(t *testing.T) {
	first, _, _ := lives(t, SimulationOptions{Rate: 400}, 1<<20)
	again, _, _ := lives(t, SimulationOptions{Rate: 400}, 1<<20)
	for pid := range first {
		n := min(len(first[pid]), len(again[pid])) // the end may find it at one thing or the next
		require.Equal(t, first[pid][:n], again[pid][:n])
	}
	require.InDelta(t, len(first), len(again), 20)
	other, _, _ := lives(t, SimulationOptions{Rate: 400, Seed: 1}, 1<<20)
	require.NotEqual(t, first, other)
}

// What is simulated is laid out as what BPF programs output.
func TestEncode(t *testing.T) {
	e := Event{Kind: Exit, PID: 1, TID: 2, ChildPID: 3, ChildTID: 4, Code: -5, CommBytes: [16]byte{6}, FileBytes: [128]byte{127: 7}}
	b := Encode(e)
	require.Len(t, b, 168) // sizeof(struct event)
	require.Equal(t, unsafe.Slice((*byte)(unsafe.Pointer(&e)), unsafe.Sizeof(e)), b)
}
