package perfbuftest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

// Any way of reading, waiting or not, delivers the events in the rings and the answers to flushes,
// and then the error, once. It goes on with the remaining rings, and returns the error again when
// more are taken.
func TestDisplaced(t *testing.T) {
	for name, read := range map[string]func(*perfbuf.Reader) (*perfbuf.Stream, error){
		"unordered": func(r *perfbuf.Reader) (*perfbuf.Stream, error) {
			return r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
		},
		"ring":  func(r *perfbuf.Reader) (*perfbuf.Stream, error) { return r.Rings()[0].Stream() },
		"exact": func(r *perfbuf.Reader) (*perfbuf.Stream, error) { return r.Stream(perfbuf.StreamOptions{}) },
		"slack": func(r *perfbuf.Reader) (*perfbuf.Stream, error) {
			return r.Stream(perfbuf.StreamOptions{Order: perfbuf.Slack(time.Second)})
		},
	} {
		for _, waiting := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, waiting %v", name, waiting), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { displaced(t, read, name == "ring", waiting) })
			})
		}
	}
}

func displaced(t *testing.T, read func(*perfbuf.Reader) (*perfbuf.Stream, error), alone, waiting bool) {
	k := perfbuftest.New(perfbuftest.Options{RealTime: true, CPUs: 2})
	r := open(t, k, perfbuf.Options{})
	s, err := read(r)
	require.NoError(t, err)
	var got []string
	var done <-chan error
	run := func() {
		done = inBackground(func() error {
			return s.Run(t.Context(), func(ev perfbuf.Event) error {
				got = append(got, ev.Kind().String()+string(ev.Bytes()))
				return nil
			})
		})
	}
	output := func(cpu int, payload string) { require.NoError(t, k.Output(cpu, []byte(payload))) }
	displace := func(cpu int) { open(t, k, perfbuf.Options{CPUs: []int{cpu}}) }
	rest := func() {
		time.Sleep(time.Hour)
		synctest.Wait()
	}

	if waiting {
		run()
	}
	output(0, "1st.")
	require.NoError(t, s.Flush())
	want := []string{"sample1st.", "flushed"}
	displace(0)
	output(0, "not.")
	if !waiting {
		require.NoError(t, s.Wait(t.Context()))
		run()
	}
	require.ErrorIs(t, <-done, perfbuf.ErrDisplaced)
	require.Equal(t, want, got)
	require.Equal(t, 1, r.Stats().Displaced.Entries)

	run()
	output(1, "2nd.")
	rest()
	require.Empty(t, done, "it is said once")
	displace(1)
	if !alone {
		want = append(want, "sample2nd.")
		require.ErrorIs(t, <-done, perfbuf.ErrDisplaced)
		run()
	}
	require.NoError(t, r.Pause())
	require.NoError(t, r.Resume())
	output(0, "3rd.")
	rest()
	require.Empty(t, done)
	require.Equal(t, append(want, "sample3rd."), got)
	require.Equal(t, 2, r.Stats().Displaced.Entries)
	require.NoError(t, r.Close())
	require.Error(t, <-done)
}
