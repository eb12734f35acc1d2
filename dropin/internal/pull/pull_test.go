package pull

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { leak.Main(m) }

var orders = []perfbuf.Order{{}, perfbuf.Slack(10 * time.Millisecond), perfbuf.Unordered()}

// fixture is a Queue of a simulated kernel's events.
type fixture struct {
	*Queue
	*perfbuftest.Kernel
	t      *testing.T
	sample []byte
}

func open(t *testing.T, o perfbuf.Order, opts perfbuf.Options) *fixture {
	k := perfbuftest.New(perfbuftest.Options{RealTime: true})
	r, err := k.Open(opts)
	require.NoError(t, err)
	q, err := New(r, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return &fixture{Queue: q, Kernel: k, t: t}
}

// inOrders runs a test in a bubble for each order.
func inOrders(t *testing.T, opts perfbuf.Options, f func(t *testing.T, q *fixture)) {
	for _, o := range orders {
		t.Run(o.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, open(t, o, opts)) })
		})
	}
}

// output outputs events with the numbers from to to-1, by all CPUs in turn, a microsecond apart.
func (q *fixture) output(from, to int) {
	q.t.Helper()
	for i := from; i < to; i++ {
		time.Sleep(time.Microsecond)
		assert.NoError(q.t, q.Output(i%2, fmt.Appendf(nil, "%08d____", i))) // without padding
	}
}

// get takes events with the numbers from to to-1, in order, or without one in each CPU's order.
func (q *fixture) get(from, to int) {
	q.t.Helper()
	next := [2]int{from + from%2, from + 1 - from%2}
	for i := from; i < to; i++ {
		ev, err := q.Next(&q.sample)
		require.NoError(q.t, err)
		require.Zero(q.t, ev.Lost)
		number := next[ev.CPU]
		next[ev.CPU] += 2
		if q.stream.Options().Order != perfbuf.Unordered() {
			number = i
		}
		require.Equal(q.t, fmt.Sprintf("%08d____", number), string(q.sample))
		require.Equal(q.t, number%2, ev.CPU)
	}
}

func (q *fixture) fails(want error) {
	q.t.Helper()
	_, err := q.Next(&q.sample)
	require.ErrorIs(q.t, err, want)
}

// All events from before a deadline come before its error, also if it is over already.
func TestDeadline(t *testing.T) {
	inOrders(t, perfbuf.Options{}, func(t *testing.T, q *fixture) {
		q.SetDeadline(time.Unix(1, 0))
		q.fails(os.ErrDeadlineExceeded)
		for from := 0; from < 3000; from += 1000 {
			q.output(from, from+1000)
			q.get(from, from+1000)
			q.fails(os.ErrDeadlineExceeded)
			q.fails(os.ErrDeadlineExceeded)
		}

		start := time.Now()
		q.SetDeadline(start.Add(time.Hour))
		q.output(0, mostEvents) // after a full queue it waits, too
		q.get(0, mostEvents)
		require.Less(t, time.Since(start), time.Hour)
		q.fails(os.ErrDeadlineExceeded)
		require.InDelta(t, time.Hour, time.Since(start), float64(time.Second))

		q.SetDeadline(time.Time{})
		go func() {
			time.Sleep(time.Hour)
			q.output(10, 20)
		}()
		q.get(10, 20)
	})
}

// ErrFlushed comes after all events from before the call, whether Next waits or not, and by a
// deadline that is over, too.
func TestFlush(t *testing.T) {
	for _, deadline := range []time.Time{{}, time.Unix(1, 0)} {
		inOrders(t, perfbuf.Options{Wakeup: perfbuf.Wakeup{Bytes: 100_000, PollInterval: time.Hour}}, func(t *testing.T, q *fixture) {
			q.SetDeadline(deadline)
			start := time.Now()
			for from := 0; from < 1000; from += 500 {
				q.output(from, from+500)
				require.NoError(t, q.Flush())
				require.NoError(t, q.Flush())
				q.get(from, from+500)
				q.fails(ErrFlushed)
			}
			require.Less(t, time.Since(start), time.Second)
			if !deadline.IsZero() {
				q.fails(os.ErrDeadlineExceeded)
				return
			}
			go func() {
				q.output(1000, 1010)
				time.Sleep(time.Minute)
				assert.NoError(t, q.Flush())
			}()
			q.get(1000, 1010)
			q.fails(ErrFlushed)
			require.Less(t, time.Since(start), time.Hour)
		})
	}
}

// A Flush may be answered before it comes to end the wait. Its marker then counts for nothing.
func TestLateMarker(t *testing.T) {
	inOrders(t, perfbuf.Options{}, func(t *testing.T, q *fixture) {
		require.NoError(t, q.stream.Flush())
		go func() {
			time.Sleep(time.Minute)
			q.output(0, 1)
		}()
		q.get(0, 1)
	})
}

// A marker of a Flush that came during a Next with a deadline is not taken for the deadline's: a
// Flush is answered once, after the events from before it.
func TestFlushesAndDeadlines(t *testing.T) {
	inOrders(t, perfbuf.Options{}, func(t *testing.T, q *fixture) {
		for i := range 200 {
			q.SetDeadline(time.Now().Add(time.Duration(i) * 10 * time.Microsecond))
			go func() {
				time.Sleep(time.Millisecond)
				q.output(i, i+1)
				q.Flush()
			}()
			got := false
			for {
				_, err := q.Next(&q.sample)
				if err == ErrFlushed {
					break
				}
				if errors.Is(err, os.ErrDeadlineExceeded) {
					time.Sleep(100 * time.Microsecond) // the bubble's time stands still otherwise
					continue
				}
				require.NoError(t, err)
				require.False(t, got)
				got = true
			}
			require.True(t, got)
		}
		q.SetDeadline(time.Unix(1, 0))
		q.fails(os.ErrDeadlineExceeded)
	})
}

func TestClose(t *testing.T) {
	inOrders(t, perfbuf.Options{}, func(t *testing.T, q *fixture) {
		go func() {
			time.Sleep(time.Minute)
			q.Close()
		}()
		_, err := q.Next(&q.sample)
		require.EqualError(t, err, "the reader is closed: file already closed")
		q.fails(os.ErrClosed)
		require.NoError(t, q.Close())
		require.ErrorIs(t, q.Flush(), os.ErrClosed)
		q.SetDeadline(time.Unix(1, 0))
		q.fails(os.ErrClosed)
	})
	inOrders(t, perfbuf.Options{}, func(t *testing.T, q *fixture) {
		q.output(0, 10)
		q.get(0, 1)
		require.NoError(t, q.Close())
		q.fails(os.ErrClosed) // though there are copies
	})
}

func TestLosses(t *testing.T) {
	inOrders(t, perfbuf.Options{RingBytes: 4096}, func(t *testing.T, q *fixture) {
		lost := uint64(0)
		for range 200 {
			if q.Output(1, make([]byte, 60)) != nil {
				lost++
			}
		}
		for range 200 - lost {
			_, err := q.Next(&q.sample)
			require.NoError(t, err)
			require.Len(t, q.sample, 60)
		}
		q.SetDeadline(time.Unix(1, 0))
		q.fails(os.ErrDeadlineExceeded)
		require.NoError(t, q.Output(1, make([]byte, 60)))
		ev, err := q.Next(&q.sample)
		require.NoError(t, err)
		require.Equal(t, 1, ev.CPU)
		require.Equal(t, lost, ev.Lost)
		require.Empty(t, q.sample)
		ev, err = q.Next(&q.sample)
		require.NoError(t, err)
		require.Zero(t, ev.Lost)
		require.Len(t, q.sample, 60)
	})
}

// Corrupt memory is an error, and leaves the record alone. Reading goes on behind it.
func TestCorrupt(t *testing.T) {
	q := open(t, perfbuf.Unordered(), perfbuf.Options{})
	require.NoError(t, q.Output(0, []byte("before__whole")[:12]))
	require.NoError(t, q.Output(0, make([]byte, 70_000)))
	_, err := q.Next(&q.sample)
	require.NoError(t, err)
	_, err = q.Next(&q.sample)
	var corrupt *perfbuf.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Zero(t, corrupt.CPU)
	require.Equal(t, "before__whol", string(q.sample))
	require.NoError(t, q.Output(0, []byte("behind__whol")))
	_, err = q.Next(&q.sample)
	require.NoError(t, err)
	require.Equal(t, "behind__whol", string(q.sample))
}

// Only so many events are copied ahead. The others stay in the rings, and none is missed.
func TestBound(t *testing.T) {
	q := open(t, perfbuf.Unordered(), perfbuf.Options{RingBytes: 1 << 20})
	const events = 4 * mostEvents
	q.output(0, events)
	record := q.Waiting() / events
	q.get(0, 1)
	require.Equal(t, (mostEvents-1)*12+(events-mostEvents)*record, q.Waiting())
	q.get(1, events)
	require.Zero(t, q.Waiting())

	const large = 6 * mostBytes / 30_000
	for i := range large {
		payload := make([]byte, 30_004)
		payload[0] = byte(i)
		require.NoError(t, q.Output(0, payload))
	}
	for i := range large {
		ev, err := q.Next(&q.sample)
		require.NoError(t, err)
		require.Equal(t, byte(i), q.sample[0])
		require.LessOrEqual(t, len(q.data), mostBytes+len(q.sample))
		if i == 0 {
			require.Equal(t, 2, len(q.events)-q.next)
			require.Equal(t, q.Waiting(), ev.Remaining)
			require.Equal(t, 2*30_004+(large-3)*30_024, ev.Remaining)
		}
	}
}

// Remaining counts the event's own CPU, and reaches 0 with its last event.
func TestRemaining(t *testing.T) {
	inOrders(t, perfbuf.Options{}, func(t *testing.T, q *fixture) {
		q.output(0, 100)
		left := [2]int{50, 50}
		for range 100 {
			ev, err := q.Next(&q.sample)
			require.NoError(t, err)
			left[ev.CPU]--
			require.GreaterOrEqual(t, ev.Remaining, 12*left[ev.CPU])
			require.Equal(t, left[ev.CPU] == 0, ev.Remaining == 0)
		}
		require.Zero(t, q.Waiting())
	})
}

// Goroutines take turns, and none gets another's event.
func TestGoroutines(t *testing.T) {
	for _, o := range orders {
		t.Run(o.String(), func(t *testing.T) {
			q := open(t, o, perfbuf.Options{RingBytes: 1 << 20})
			const events = 2000
			var mu sync.Mutex
			got := map[string]bool{}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					var sample []byte
					for {
						if _, err := q.Next(&sample); err != nil {
							assert.ErrorIs(t, err, os.ErrClosed)
							return
						}
						mu.Lock()
						got[string(sample)] = true
						over := len(got) == events
						mu.Unlock()
						if over {
							go q.Close()
						}
					}
				})
			}
			q.output(0, events)
			all.Wait()
			require.Len(t, got, events)
			require.NoError(t, q.Close())
		})
	}
}

// A BPF ring buffer's events come the same way.
func TestRingBuf(t *testing.T) {
	k := ringtest.NewKernel(1, func(int) uint64 { return uint64(time.Now().UnixNano()) })
	bufs := k.NewRingBufs(1, 4096, 0)
	r, err := perfbuf.OpenSource(bufs, perfbuf.Options{})
	require.NoError(t, err)
	q, err := New(r, perfbuf.Unordered())
	require.NoError(t, err)
	defer q.Close()
	for i := range 10 {
		rec, err := bufs.Reserve(0, 0, 8)
		require.NoError(t, err)
		rec.Write(0, fmt.Appendf(nil, "%08d", i))
		if rec.Commit(0) {
			bufs.Wake()
		}
	}
	var sample []byte
	for i := range 10 {
		ev, err := q.Next(&sample)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%08d", i), string(sample))
		require.Equal(t, (9-i)*8, ev.Remaining)
	}
}

// When another reader takes the map, Next says so once, after all events from before.
func TestDisplaced(t *testing.T) {
	inOrders(t, perfbuf.Options{}, func(t *testing.T, q *fixture) {
		q.output(0, 10)
		other, err := q.Open(perfbuf.Options{})
		require.NoError(t, err)
		defer other.Close()
		q.get(0, 10)
		q.fails(perfbuf.ErrDisplaced)
		q.SetDeadline(time.Unix(1, 0))
		q.fails(os.ErrDeadlineExceeded)
	})
}

func TestNewFails(t *testing.T) {
	k := perfbuftest.New(perfbuftest.Options{})
	r, err := k.Open(perfbuf.Options{NoTime: true})
	require.NoError(t, err)
	_, err = New(r, perfbuf.Order{})
	require.ErrorContains(t, err, "Options.NoTime")
	<-r.Done()
}
