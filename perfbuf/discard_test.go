package perfbuf

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// buffers are BPF ring buffers on Go memory that a stream reads, in a bubble: only the kernel and
// the bubble's clock make it look.
type buffers struct {
	*ringtest.RingBufs
	*Stream
	t     *testing.T
	looks atomic.Int64 // at the clock
	got   chan uint64  // times of events
}

const bufferSize = 4096

func newBuffers(t *testing.T, n int, source TimeSource, o StreamOptions) *buffers {
	b := &buffers{t: t, got: make(chan uint64, 1000)}
	b.RingBufs = ringtest.NewKernel(1, func(int) uint64 { b.looks.Add(1); return uint64(time.Now().UnixNano()) }).NewRingBufs(n, bufferSize, 0, 0)
	r, err := kernel.OpenRingBufReader(b.RingBufs, RingBufOptions{Time: source, PollInterval: 1000 * time.Hour})
	require.NoError(t, err)
	b.Stream, err = r.(*Reader).Stream(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- b.Run(ctx, func(ev Event) error { b.got <- ev.Time(); return nil })
	}()
	t.Cleanup(func() {
		cancel()
		require.Equal(t, context.Canceled, <-done)
		require.NoError(t, b.Stream.Close())
		require.NoError(t, r.(*Reader).Close())
		<-r.(*Reader).Done()
	})
	synctest.Wait()
	return b
}

// record is a stamped reservation.
type bufferRecord struct {
	ringtest.Record
	of   *buffers
	time uint64
}

func (b *buffers) reserve(i int) bufferRecord {
	rec, err := b.Reserve(0, i, 8)
	require.NoError(b.t, err)
	time := uint64(time.Now().UnixNano())
	rec.Write(0, binary.NativeEndian.AppendUint64(nil, time))
	return bufferRecord{rec, b, time}
}

// end commits or discards the record, and reports whether the kernel has woken the stream.
func (r bufferRecord) end(end func(ringtest.Record, int) bool) (wake bool) {
	if wake = end(r.Record, 0); wake {
		r.of.Wake()
	}
	return wake
}

// idle reports how often the clock was read in ten seconds in which the kernel does nothing.
func (b *buffers) idle() int64 {
	synctest.Wait()
	before := b.looks.Load()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	return b.looks.Load() - before
}

// Discarded records are given back as soon as they are seen, so that they fill no ring, and the
// next record wakes the stream.
func TestDiscardedRecordsAreGivenBack(t *testing.T) {
	for name, source := range map[string]TimeSource{"stamped": StampedTime(0), "payload": PayloadTime(0)} {
		for _, spill := range []int{0, -1} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBuffers(t, 1, source, StreamOptions{Spill: Spill{Bytes: spill}})
					for range 3 * bufferSize / 16 {
						require.True(t, b.reserve(0).end(ringtest.Record.Discard))
						synctest.Wait()
						require.Equal(t, b.At(0).Head(), b.At(0).Tail())
					}
					event := b.reserve(0)
					require.True(t, event.end(ringtest.Record.Commit), "nobody is woken")
					require.Equal(t, event.time, <-b.got)
					require.Less(t, uint64(time.Now().UnixNano())-event.time, uint64(time.Millisecond))
				})
			})
		}
	}
}

// A record that is reserved and not committed for long holds a stamped stream up, and costs nothing
// meanwhile.
func TestBusyRecordCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const few = 20
		b := newBuffers(t, 2, StampedTime(0), StreamOptions{})
		busy := b.reserve(0)
		require.Less(t, b.idle(), int64(few), "nothing behind it")
		b.reserve(0).end(ringtest.Record.Discard)
		require.False(t, b.reserve(0).end(ringtest.Record.Commit))
		require.True(t, b.reserve(1).end(ringtest.Record.Commit))
		require.Less(t, b.idle(), int64(few), "events behind it, and of another ring buffer")
		require.NoError(t, b.Flush())
		require.Less(t, b.idle(), int64(few), "a flush")
		require.Empty(t, b.got)
		require.True(t, busy.end(ringtest.Record.Commit), "nobody is woken")
		released := time.Now()
		for range 4 { // and the marker
			<-b.got
		}
		require.Less(t, time.Since(released), time.Millisecond)

		// What was committed right before it is held too, and keeps the tail: nobody is woken, so
		// the stream looks.
		b.reserve(0).end(ringtest.Record.Commit)
		busy = b.reserve(0)
		require.Less(t, b.idle(), int64(1000))
		require.Empty(t, b.got)
		require.False(t, busy.end(ringtest.Record.Commit), "else the test is of nothing")
		released = time.Now()
		<-b.got
		<-b.got
		require.LessOrEqual(t, time.Since(released), 100*time.Millisecond)
	})
}
