package perfbuftest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T, k *perfbuftest.Kernel, o perfbuf.Options) *perfbuf.Reader {
	t.Helper()
	r, err := k.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// unordered is an unordered stream of a reader.
func unordered(t *testing.T, r *perfbuf.Reader) *perfbuf.Stream {
	t.Helper()
	s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	return s
}

func collect(t *testing.T, src *perfbuf.Stream) (recs []perfbuf.Record) {
	t.Helper()
	_, err := perfbuf.Fold(src, 0, func(_ int, ev perfbuf.Event) (int, error) {
		recs = append(recs, ev.Record())
		return 0, nil
	})
	require.NoError(t, err)
	return recs
}

func payloads(recs []perfbuf.Record) (s []string) {
	for _, rec := range recs {
		s = append(s, string(rec.Data))
	}
	return s
}

func TestZeroOptions(t *testing.T) {
	k := perfbuftest.New(perfbuftest.Options{})
	require.EqualValues(t, time.Hour, k.Now())
	r := open(t, k, perfbuf.Options{})
	require.Len(t, r.Rings(), 2)
	require.Equal(t, []int{0, 1}, r.Options().CPUs)
	require.Equal(t, 256<<10, r.Options().RingBytes)
	k.Advance(time.Second)
	require.NoError(t, k.Output(1, []byte("1234")))
	recs := collect(t, unordered(t, r))
	require.Equal(t, []perfbuf.Record{{Kind: perfbuf.KindSample, CPU: 1, Time: uint64(time.Hour + time.Second), Data: []byte("1234")}}, recs)
	require.Equal(t, perfbuftest.Counts{Attempted: 1, Written: 1}, k.Counts(1))
}

func TestOptions(t *testing.T) {
	k := perfbuftest.New(perfbuftest.Options{CPUs: 3, Start: time.Minute})
	require.EqualValues(t, time.Minute, k.Now())
	for want, o := range map[string]perfbuf.Options{
		"RingBytes is -1":        {RingBytes: -1},
		"CPU 3 is not online":    {CPUs: []int{3}},
		"CPU 1 is listed twice":  {CPUs: []int{1, 1}},
		"Wakeup.Bytes is 100000": {RingBytes: 4096, Wakeup: perfbuf.Wakeup{Bytes: 100_000}},
	} {
		_, err := k.Open(o)
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, syscall.ENOENT, k.Output(0, nil), "nothing was opened")

	r := open(t, k, perfbuf.Options{CPUs: []int{2, 0}, NoTime: true})
	require.Equal(t, []int{0, 2}, r.Options().CPUs)
	require.Equal(t, syscall.ENOENT, k.Output(1, nil))
	require.NoError(t, k.Output(2, nil))
	require.Equal(t, []perfbuf.Record{{Kind: perfbuf.KindSample, CPU: 2, Data: []byte{0xA5, 0xA5, 0xA5, 0xA5}}}, collect(t, unordered(t, r)))

	require.Panics(t, func() { perfbuftest.New(perfbuftest.Options{CPUs: -1}) })
	require.Panics(t, func() { k.Advance(-1) })
}

// A second reader has the array's entries from then on, and closing the first leaves them alone.
func TestOneReaderPerMap(t *testing.T) {
	k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
	first := open(t, k, perfbuf.Options{})
	require.NoError(t, k.Output(0, []byte("1st.")))
	second := open(t, k, perfbuf.Options{})
	old, young := unordered(t, first), unordered(t, second)
	require.NoError(t, k.Output(0, []byte("2nd.")))
	k.Advance(time.Second)
	var recs []perfbuf.Record
	require.ErrorIs(t, old.ForEach(func(ev perfbuf.Event) error {
		recs = append(recs, ev.Record())
		return nil
	}), perfbuf.ErrDisplaced)
	require.Equal(t, []string{"1st."}, payloads(recs))
	require.Empty(t, collect(t, old), "it is said once")
	require.Equal(t, perfbuf.DisplacedStats{Entries: 1, OwnedUntil: k.Now() - 1e9}, first.Stats().Displaced)
	require.Equal(t, 1, second.Stats().ReplacedEntries)
	require.Equal(t, []string{"2nd."}, payloads(collect(t, young)))
	require.NoError(t, first.Close())
	require.NoError(t, k.Output(0, []byte("3rd.")))
	require.Equal(t, []string{"3rd."}, payloads(collect(t, young)))
	require.NoError(t, second.Close())
	require.Equal(t, syscall.ENOENT, k.Output(0, nil))
	require.Equal(t, perfbuftest.Counts{Attempted: 4, Written: 3, Refused: 1}, k.Counts(0))
}

func TestLoss(t *testing.T) {
	k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
	r := open(t, k, perfbuf.Options{RingBytes: 4096})
	s := unordered(t, r)
	for range 200 {
		k.Advance(1)
		k.Output(0, make([]byte, 12))
	}
	last := k.Now() - (200 - 127)
	require.Equal(t, perfbuftest.Counts{Attempted: 200, Written: 127, Lost: 73}, k.Counts(0))
	require.Len(t, collect(t, s), 127)
	k.Advance(1)
	require.NoError(t, k.Output(0, []byte("back")))
	require.Equal(t, []perfbuf.Record{
		{Kind: perfbuf.KindLost, Time: k.Now(), Lost: 73, LostAfter: last},
		{Kind: perfbuf.KindSample, Time: k.Now(), Data: []byte("back")},
	}, collect(t, s))
}

// An event whose program has not ended holds back later ones until it ends.
func TestExactStreamWaitsForPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := perfbuftest.New(perfbuftest.Options{RealTime: true})
		require.EqualValues(t, time.Hour, k.Now())
		r := open(t, k, perfbuf.Options{})
		stream, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		p := k.Begin(0)
		p.Prepare([]byte("slow"))
		time.Sleep(time.Second)
		require.EqualValues(t, time.Hour+time.Second, k.Now())
		require.NoError(t, k.Output(1, []byte("fast")))

		var got []string
		run := inBackground(func() error {
			return stream.Run(t.Context(), func(ev perfbuf.Event) error {
				if got = append(got, string(ev.Bytes())); len(got) == 2 {
					return perfbuf.ErrStop
				}
				return nil
			})
		})
		time.Sleep(time.Minute)
		require.NoError(t, p.Reserve())
		p.Copy()
		p.Publish()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, got, "the program is still running")
		p.End()
		require.NoError(t, <-run)
		require.Equal(t, []string{"slow", "fast"}, got)
		require.Zero(t, r.Stats().Late)
		require.NoError(t, r.Close())
	})
}

// inBackground starts a call and lets it come to rest.
func inBackground(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	synctest.Wait()
	return done
}

// Drain and Shutdown wait for running programs, even if the clock stands still, and deliver their
// outputs.
func TestEndsWaitForPrograms(t *testing.T) {
	type ender = *perfbuf.Stream
	for _, order := range []perfbuf.Order{perfbuf.Unordered(), {}, perfbuf.Slack(time.Hour)} {
		for end, f := range map[string]func(ender, context.Context, func(perfbuf.Event) error) error{"Drain": ender.Drain, "Shutdown": ender.Shutdown} {
			t.Run(order.String()+" "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := perfbuftest.New(perfbuftest.Options{})
					r := open(t, k, perfbuf.Options{})
					src, err := r.Stream(perfbuf.StreamOptions{Order: order})
					require.NoError(t, err)
					p := k.Begin(0)
					p.Prepare([]byte("1st."))
					k.Advance(time.Second)
					require.NoError(t, k.Output(1, []byte("2nd.")))
					var got []string
					done := inBackground(func() error {
						return f(src, t.Context(), func(ev perfbuf.Event) error {
							got = append(got, string(ev.Bytes()))
							return nil
						})
					})
					require.Empty(t, done)
					if end == "Shutdown" {
						require.Equal(t, syscall.ENOENT, k.Output(1, []byte("none")))
					}
					require.NoError(t, p.Reserve())
					p.Copy()
					p.Publish()
					p.End()
					require.NoError(t, <-done)
					require.ElementsMatch(t, []string{"1st.", "2nd."}, got)
					if order != perfbuf.Unordered() {
						require.IsIncreasing(t, got)
					}
					require.NoError(t, r.Close())
					require.Zero(t, r.Stats().Total().Dropped)
				})
			})
		}
	}
}

// Outputs of a paused reader are refused, and counted as such.
func TestPauseAndResume(t *testing.T) {
	k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
	r := open(t, k, perfbuf.Options{})
	require.NoError(t, k.Output(0, []byte("kept")))
	require.NoError(t, r.Pause())
	require.Equal(t, syscall.ENOENT, k.Output(0, []byte("none")))
	require.NoError(t, r.Resume())
	require.NoError(t, k.Output(0, []byte("back")))
	require.Equal(t, []string{"kept", "back"}, payloads(collect(t, unordered(t, r))))
	require.Equal(t, perfbuftest.Counts{Attempted: 3, Written: 2, Refused: 1}, k.Counts(0))
}

// Closing a reader does not wait for programs that output to it. No reader counts their reserved
// records.
func TestCloseDoesNotWaitForPrograms(t *testing.T) {
	k := perfbuftest.New(perfbuftest.Options{})
	r := open(t, k, perfbuf.Options{})
	prepared, reserved := k.Begin(0), k.Begin(1)
	prepared.Prepare([]byte("late"))
	reserved.Prepare([]byte("gone"))
	require.NoError(t, reserved.Reserve())
	require.NoError(t, r.Close())
	require.Equal(t, syscall.ENOSPC, prepared.Reserve(), "the ring is gone")
	require.Equal(t, syscall.ENOENT, prepared.Output(nil))
	prepared.End()
	reserved.Copy()
	reserved.Publish()
	reserved.End()
	require.Equal(t, perfbuftest.Counts{Attempted: 2, Refused: 2}, k.Counts(0))
	require.Equal(t, perfbuftest.Counts{Attempted: 1, Written: 1}, k.Counts(1))
	require.Zero(t, r.Stats().Total().Dropped)
}

// Wakeups are the kernel's: the doorbell's, each so many events, or so many bytes.
func TestWakeup(t *testing.T) {
	for _, c := range []struct {
		w      perfbuf.Wakeup
		sleeps int // outputs of 32 bytes that do not wake
	}{
		{perfbuf.Wakeup{}, 0},
		{perfbuf.Wakeup{Events: 3, PollInterval: time.Hour}, 2},
		{perfbuf.Wakeup{Bytes: 100, PollInterval: time.Hour}, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := perfbuftest.New(perfbuftest.Options{RealTime: true})
			r := open(t, k, perfbuf.Options{Wakeup: c.w})
			s := unordered(t, r)
			woken := inBackground(func() error { return s.Wait(t.Context()) })
			time.Sleep(time.Minute) // by default, it looks no more
			for range c.sleeps {
				require.NoError(t, k.Output(1, make([]byte, 12)))
				synctest.Wait()
				require.Empty(t, woken)
			}
			start := time.Now()
			require.NoError(t, k.Output(1, make([]byte, 12)))
			require.NoError(t, <-woken)
			require.Equal(t, start, time.Now())
			require.EqualValues(t, 1, r.Stats().Wakes)
			require.NoError(t, r.Close())
		})
	}
}

// Programs run on all CPUs, interrupted at any step, while a stream is read: nothing is out of
// order, and everything is accounted for.
func TestConservation(t *testing.T) {
	for name, mode := range map[string]perfbuf.Order{"exact": {}, "slack": perfbuf.Slack(time.Millisecond)} {
		t.Run(name, func(t *testing.T) {
			const cpus = 4
			k := perfbuftest.New(perfbuftest.Options{CPUs: cpus, RealTime: true})
			r := open(t, k, perfbuf.Options{RingBytes: 4096})
			stream, err := r.Stream(perfbuf.StreamOptions{Order: mode})
			require.NoError(t, err)
			defer stream.Close()
			var samples, lost [cpus]uint64
			last := uint64(0)
			check := func(ev perfbuf.Event) error {
				switch ev.Kind() {
				case perfbuf.KindSample:
					if _, err := ringtest.Check(ev.Bytes()); err != nil {
						return err
					}
					samples[ev.CPU()]++
				case perfbuf.KindLost:
					lost[ev.CPU()] += ev.Lost()
				default:
					return ev.Err()
				}
				if ev.Late() != (ev.Time() < last) {
					return errors.New("late, or not marked so")
				}
				last = max(last, ev.Time())
				return nil
			}
			for cpu := range cpus {
				for k.Output(cpu, ringtest.Payload(0, 12)) == nil {
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- stream.Run(ctx, check) }()
			var wg sync.WaitGroup
			for cpu := range cpus {
				wg.Go(func() { programs(k, cpu, 3000) })
			}
			wg.Wait()
			cancel()
			require.Equal(t, context.Canceled, <-done)
			require.NoError(t, stream.Drain(t.Context(), check))
			for cpu := range cpus { // reports the last losses
				require.NoError(t, k.Output(cpu, ringtest.Payload(0, 12)))
			}
			require.NoError(t, stream.Drain(t.Context(), check))

			if mode == (perfbuf.Order{}) {
				require.Zero(t, r.Stats().Late)
			}
			for cpu := range cpus {
				c := k.Counts(cpu)
				require.Equal(t, c.Written, samples[cpu])
				require.Equal(t, c.Lost, lost[cpu])
				require.Equal(t, c.Attempted, c.Written+c.Lost+c.Refused)
				require.NotZero(t, c.Lost)
				require.Greater(t, c.Written, uint64(127), "nothing but what filled the ring first")
			}
		})
	}
}

// programs runs n programs on a CPU, each of which may be interrupted by others at every step.
func programs(k *perfbuftest.Kernel, cpu, n int) {
	rnd := rand.New(rand.NewPCG(uint64(cpu), 1))
	var run func(depth int)
	interrupts := func(depth int) {
		for depth < 4 && rnd.IntN(8) == 0 {
			run(depth + 1)
		}
	}
	run = func(depth int) {
		p := k.Begin(cpu)
		defer p.End()
		for range rnd.IntN(4) {
			interrupts(depth)
			p.Prepare(ringtest.Payload(rnd.Uint64(), 12+rnd.IntN(40)))
			interrupts(depth)
			if p.Reserve() != nil {
				continue
			}
			interrupts(depth)
			p.Copy()
			interrupts(depth)
			p.Publish()
		}
		if depth == 1 && rnd.IntN(4) == 0 {
			p.Preempt()
			run(1)
			p.Resume()
		}
	}
	for range n {
		run(1)
		if rnd.IntN(16) == 0 { // lets the reader catch up
			time.Sleep(100 * time.Microsecond)
		}
	}
}
