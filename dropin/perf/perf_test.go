package perf

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { leak.Main(m) }

// open opens a Reader on a simulated kernel.
func open(t *testing.T, k *perfbuftest.Kernel, perCPUBuffer int, o ReaderOptions) *Reader {
	t.Helper()
	r, err := newReader(k.Open, perCPUBuffer, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// Records come in order of time, with all fields, however they are read.
func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := perfbuftest.New(perfbuftest.Options{RealTime: true, CPUs: 3})
		r := open(t, k, 1, ReaderOptions{})
		require.Equal(t, os.Getpagesize(), r.BufferSize())
		var rec Record
		for round := range 10 {
			const events = 15
			for i := range events {
				time.Sleep(time.Microsecond)
				require.NoError(t, k.Output((7*i+round)%3, fmt.Appendf(nil, "%04d", i)))
			}
			for i := range events {
				var err error
				if round%2 == 0 {
					rec, err = r.Read()
				} else {
					err = r.ReadInto(&rec)
				}
				require.NoError(t, err)
				require.Equal(t, Record{CPU: (7*i + round) % 3, RawSample: fmt.Appendf(nil, "%04d", i), Remaining: rec.Remaining}, rec)
				require.Equal(t, i >= events-3, rec.Remaining == 0)
			}
		}

		lost := uint64(0)
		for lost < 3 {
			if k.Output(0, make([]byte, 1000)) != nil {
				lost++
			}
		}
		require.NoError(t, r.Flush())
		samples := 0
		var err error
		for ; err == nil; err = r.ReadInto(&rec) {
			samples++
		}
		require.ErrorIs(t, err, ErrFlushed)
		require.Equal(t, 4, samples)
		require.NoError(t, k.Output(0, make([]byte, 4)))
		require.NoError(t, r.ReadInto(&rec))
		require.Equal(t, Record{RawSample: []byte{}, LostSamples: lost, Remaining: rec.Remaining}, rec)
		require.NoError(t, r.ReadInto(&rec))
		require.Zero(t, rec.LostSamples)

		require.NoError(t, r.Pause())
		require.Error(t, k.Output(0, make([]byte, 4)))
		require.NoError(t, r.Resume())
		require.NoError(t, k.Output(0, make([]byte, 4)))
		_, err = r.Read()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.ErrorIs(t, r.Pause(), ErrClosed)
		require.ErrorIs(t, r.Resume(), ErrClosed)
		_, err = r.Read()
		require.ErrorIs(t, err, ErrClosed)
		require.False(t, IsUnknownEvent(err))
	})
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		perCPUBuffer int
		o            ReaderOptions
		want         perfbuf.Wakeup
	}{
		{1 << 16, ReaderOptions{}, perfbuf.Wakeup{PollInterval: time.Millisecond}},
		{1 << 16, ReaderOptions{Order: perfbuf.Unordered()}, perfbuf.Wakeup{PollInterval: time.Millisecond}},
		{1 << 16, ReaderOptions{WakeupEvents: 1, Order: perfbuf.Slack(time.Second)}, perfbuf.Wakeup{Events: 1}},
		{1 << 16, ReaderOptions{WakeupEvents: 9}, perfbuf.Wakeup{Events: 9, PollInterval: 10 * time.Millisecond}},
		{1 << 16, ReaderOptions{Watermark: 100}, perfbuf.Wakeup{Bytes: 100, PollInterval: 10 * time.Millisecond}},
		{1 << 16, ReaderOptions{Watermark: 65535}, perfbuf.Wakeup{Bytes: 32768, PollInterval: 10 * time.Millisecond}},
	} {
		r := open(t, perfbuftest.New(perfbuftest.Options{}), c.perCPUBuffer, c.o)
		o := r.rings.Options()
		require.Equal(t, c.want, o.Wakeup)
		require.Equal(t, c.o.Order == perfbuf.Unordered(), o.NoTime)
		require.Equal(t, c.perCPUBuffer, o.RingBytes)
	}
}

func TestErrors(t *testing.T) {
	failed := errors.New("failed")
	for want, c := range map[string]struct {
		perCPUBuffer int
		o            ReaderOptions
	}{
		"perCPUBuffer is 0: pass":                     {},
		"perCPUBuffer is -1: pass":                    {perCPUBuffer: -1},
		"both WakeupEvents and Watermark":             {4096, ReaderOptions{WakeupEvents: 1, Watermark: 1}},
		"Watermark is 4096: it must be":               {4096, ReaderOptions{Watermark: 4096}},
		"github.com/ringfold/ringfold/perfbuf/flight": {4096, ReaderOptions{Overwritable: true}},
		"perf.NewReader: failed":                      {4096, ReaderOptions{}},
	} {
		_, err := newReader(func(perfbuf.Options) (*perfbuf.Reader, error) { return nil, failed }, c.perCPUBuffer, c.o)
		require.ErrorContains(t, err, want)
	}

	// What perfbuf says of the order goes to the user.
	k := perfbuftest.New(perfbuftest.Options{})
	_, err := newReader(k.Open, 1, ReaderOptions{Order: perfbuf.Slack(-1)})
	require.ErrorContains(t, err, "perf.NewReader: perfbuf.Stream: slack is -1ns")
	_, err = NewReader(noMap{}, 4096)
	require.Error(t, err)
}

type noMap struct{}

func (noMap) FD() int { return -1 }
