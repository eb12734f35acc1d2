package perfbuftest_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

// inBackground starts a call and lets it come to rest.
func inBackground(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	synctest.Wait()
	return done
}

// asleep lets a Wait come to where it looks no more.
func asleep(t *testing.T, r *perfbuf.Reader) {
	t.Helper()
	time.Sleep(time.Minute)
	st := r.Stats().Doorbell
	require.Equal(t, len(r.Rings()), st.Armed)
	time.Sleep(time.Hour)
	require.Equal(t, st, r.Stats().Doorbell)
}

// interval is that of the default policy.
const interval = 5 * time.Millisecond

// By default the simulated kernel wakes a reader that sleeps with each event while these are rare, and leaves it to
// look when there are many.
func TestDoorbell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := perfbuftest.New(perfbuftest.Options{RealTime: true})
		r := open(t, k, perfbuf.Options{})
		require.Equal(t, perfbuf.Wakeup{PollInterval: interval}, r.Options().Wakeup)
		for cpu := range 2 {
			done := inBackground(func() error { return r.Wait(t.Context()) })
			asleep(t, r)
			before := r.Stats()
			const rare = 10
			for range rare {
				start := time.Now()
				require.NoError(t, k.Output(cpu, []byte("rare")))
				require.NoError(t, <-done)
				require.Equal(t, start, time.Now())
				require.Equal(t, []string{"rare"}, payloads(collect(t, r)))
				done = inBackground(func() error { return r.Wait(t.Context()) })
				asleep(t, r)
			}
			require.Equal(t, before.Wakes+rare, r.Stats().Wakes)

			require.True(t, r.Stats().Rings[cpu].Armed)
			for range 100 {
				require.NoError(t, k.Output(cpu, []byte("many")))
			}
			require.NoError(t, <-done)
			require.Len(t, collect(t, r), 100)
			require.False(t, r.Stats().Rings[cpu].Armed)
			before = r.Stats()
			start := time.Now()
			done = inBackground(func() error { return r.Wait(t.Context()) })
			for range 10 {
				require.NoError(t, k.Output(cpu, []byte("more")))
			}
			require.NoError(t, <-done)
			require.Equal(t, interval, time.Since(start))
			require.Equal(t, before.Wakes, r.Stats().Wakes)
			require.Len(t, collect(t, r), 10)
		}
	})
}

// A program that had found the ring before it was armed rings no bell. A later look finds what it output.
func TestDoorbellAndAProgramUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := perfbuftest.New(perfbuftest.Options{RealTime: true})
		r := open(t, k, perfbuf.Options{})
		p := k.Begin(1)
		p.Prepare([]byte("late"))
		done := inBackground(func() error { return r.Wait(t.Context()) })
		require.Equal(t, 2, r.Stats().Doorbell.Armed)
		require.True(t, r.Stats().Rings[0].Armed && r.Stats().Rings[1].Armed)
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, p.Reserve())
		p.Copy()
		p.Publish()
		p.End()
		synctest.Wait()
		require.Empty(t, done)
		require.Zero(t, r.Stats().Wakes)
		start := time.Now()
		require.NoError(t, <-done)
		require.LessOrEqual(t, time.Since(start), 4*interval)
		require.Equal(t, []string{"late"}, payloads(collect(t, r)))
	})
}

// With other policies there is no doorbell.
func TestNoDoorbell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := perfbuftest.New(perfbuftest.Options{RealTime: true})
		r := open(t, k, perfbuf.Options{Wakeup: perfbuf.Wakeup{Bytes: 1000, PollInterval: time.Minute}})
		done := inBackground(func() error { return r.Wait(t.Context()) })
		start := time.Now()
		require.NoError(t, k.Output(0, []byte("1st.")))
		require.NoError(t, <-done)
		require.Equal(t, time.Minute, time.Since(start))
		require.Zero(t, r.Stats().Doorbell)
	})
}

func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := perfbuftest.New(perfbuftest.Options{RealTime: true})
		r := open(t, k, perfbuf.Options{})
		require.NoError(t, k.Output(0, []byte("kept")))
		require.NoError(t, r.Pause())
		require.Equal(t, syscall.ENOENT, k.Output(0, []byte("none")))
		require.Equal(t, []string{"kept"}, payloads(collect(t, r)))
		done := inBackground(func() error { return r.Wait(t.Context()) })
		asleep(t, r)
		require.Equal(t, syscall.ENOENT, k.Output(1, []byte("none")))
		require.NoError(t, r.Resume())
		synctest.Wait()
		require.Empty(t, done)
		start := time.Now()
		require.NoError(t, k.Output(1, []byte("back")))
		require.NoError(t, <-done)
		require.Equal(t, start, time.Now())
		require.Equal(t, []string{"back"}, payloads(collect(t, r)))
		require.NoError(t, r.Close())
		require.Equal(t, perfbuftest.Counts{Attempted: 2, Written: 1, Refused: 1}, k.Counts(0))
		require.Equal(t, perfbuftest.Counts{Attempted: 2, Written: 1, Refused: 1}, k.Counts(1))
		require.Zero(t, r.Stats().Total().Lost)
		require.Zero(t, r.Stats().Total().Dropped)
	})
}

// Shutdown waits for a program that had begun, and delivers what that outputs.
func TestShutdown(t *testing.T) {
	for name, shutdown := range map[string]func(t *testing.T, r *perfbuf.Reader, f func(perfbuf.Event) error) error{
		"reader": func(t *testing.T, r *perfbuf.Reader, f func(perfbuf.Event) error) error {
			return r.Shutdown(t.Context(), f)
		},
		"stream": func(t *testing.T, r *perfbuf.Reader, f func(perfbuf.Event) error) error {
			s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Slack(time.Hour)})
			require.NoError(t, err)
			return s.Shutdown(t.Context(), f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := perfbuftest.New(perfbuftest.Options{RealTime: true})
				r := open(t, k, perfbuf.Options{})
				p := k.Begin(0)
				p.Prepare([]byte("1st."))
				time.Sleep(time.Second)
				require.NoError(t, k.Output(1, []byte("2nd.")))
				var got []string
				done := inBackground(func() error {
					return shutdown(t, r, func(ev perfbuf.Event) error { got = append(got, string(ev.Bytes())); return nil })
				})
				time.Sleep(time.Second)
				require.Empty(t, done)
				require.Equal(t, syscall.ENOENT, k.Output(1, []byte("none")))
				require.NoError(t, p.Reserve())
				p.Copy()
				p.Publish()
				p.End()
				require.NoError(t, <-done)
				require.ElementsMatch(t, []string{"1st.", "2nd."}, got)
				if name == "stream" {
					require.IsIncreasing(t, got)
				}
				require.Equal(t, os.ErrClosed, r.Flush())
				require.Zero(t, r.Stats().Total().Dropped)
			})
		})
	}
}

// Flush ends a Wait of each kind. In an exact stream the marker waits for programs that have begun before the call.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := perfbuftest.New(perfbuftest.Options{RealTime: true})
		r := open(t, k, perfbuf.Options{})
		done := inBackground(func() error { return r.Wait(t.Context()) })
		asleep(t, r)
		at := k.Now()
		require.NoError(t, r.Flush())
		require.NoError(t, <-done)
		require.Equal(t, at, k.Now())
		require.Equal(t, []perfbuf.Record{{Kind: perfbuf.KindFlushed, CPU: -1, Time: at}}, collect(t, r))

		s, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		var got []perfbuf.Kind
		stop := errors.New("stop")
		done = inBackground(func() error {
			return s.Run(t.Context(), func(ev perfbuf.Event) error {
				got = append(got, ev.Kind())
				if ev.Kind() == perfbuf.KindFlushed {
					return stop
				}
				return nil
			})
		})
		asleep(t, r)
		p := k.Begin(0)
		p.Prepare([]byte("late"))
		time.Sleep(time.Second)
		at = k.Now()
		require.NoError(t, r.Flush())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, done, "a program may still output from before")
		require.NoError(t, p.Reserve())
		p.Copy()
		p.Publish()
		p.End()
		require.Equal(t, stop, <-done)
		require.Equal(t, []perfbuf.Kind{perfbuf.KindSample, perfbuf.KindFlushed}, got)
		require.LessOrEqual(t, k.Now()-at, uint64(1100*time.Millisecond))
		require.NoError(t, s.Close())
	})
}
