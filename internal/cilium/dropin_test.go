package cilium

import (
	"errors"
	"fmt"
	"os"
	"testing"

	theirperf "github.com/cilium/ebpf/perf"
	theirringbuf "github.com/cilium/ebpf/ringbuf"
	"github.com/ringfold/ringfold/dropin/perf"
	"github.com/ringfold/ringfold/dropin/ringbuf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/stretchr/testify/require"
)

func TestPerfLikeCilium(t *testing.T) {
	all := scenarios[perfControl]()
	all["losses"] = func(s *subject[perfControl]) {
		for range 5 {
			for range 5 { // more than the ring holds
				s.emit(200, 0)
			}
			samples, lost := 0, uint64(0)
			read := func() {
				require.NoError(s.t, s.reader.Flush())
				for {
					rec, err := s.read(samples%2 == 0)
					if err != nil {
						return // flushed
					}
					if lost += rec.LostSamples; rec.LostSamples == 0 {
						samples++
					} else {
						s.note("cpu %d, %d bytes", rec.CPU, len(rec.RawSample))
					}
				}
			}
			read()
			require.Less(s.t, samples, 1000)
			s.emit(1, 0) // brings cilium/ebpf the news; ours may have it already
			read()
			s.note("all: %d", uint64(samples)+lost)
		}
	}
	all["pause"] = func(s *subject[perfControl]) {
		s.emit(2, 0)
		s.note("pause: %v", s.reader.Pause())
		s.note("pause: %v", s.reader.Pause())
		s.emit(2, 0)
		s.reader.SetDeadline(past)
		s.all()
		s.note("resume: %v", s.reader.Resume())
		s.emit(2, 0)
		s.all()
		s.note("close: %v", s.reader.Close())
		s.note("closed: %v %v", errors.Is(s.reader.Pause(), os.ErrClosed), errors.Is(s.reader.Resume(), os.ErrClosed))
	}
	all["map closed"] = func(s *subject[perfControl]) {
		require.NoError(s.t, s.Maps["events"].Close())
		s.emit(3, 0)
		require.NoError(s.t, s.reader.Flush())
		s.all()
	}
	for _, o := range []theirperf.ReaderOptions{{}, {WakeupEvents: 1}, {WakeupEvents: 50}, {Watermark: 3000}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			compare(t, all, map[string]func(collection) *subject[perfControl]{
				"theirs": func(c collection) *subject[perfControl] {
					r, err := theirperf.NewReaderWithOptions(c.Maps["events"], bufferSize, o)
					require.NoError(c.t, err)
					return subjectOf[perfControl](c, workload.Events, r, func(rec theirperf.Record) theirperf.Record { return rec })
				},
				"ours": func(c collection) *subject[perfControl] {
					r, err := perf.NewReaderWithOptions(c.Maps["events"], bufferSize, perf.ReaderOptions{WakeupEvents: o.WakeupEvents, Watermark: o.Watermark})
					require.NoError(c.t, err)
					return subjectOf[perfControl](c, workload.Events, r, func(rec perf.Record) theirperf.Record { return theirperf.Record(rec) })
				},
			})
		})
	}
}

func TestRingBufLikeCilium(t *testing.T) {
	all := scenarios[ringControl]()
	all["no wakeup"] = func(s *subject[ringControl]) {
		const noWakeup = 1 // BPF_RB_NO_WAKEUP
		s.emit(3, noWakeup)
		s.note("available: %d", s.reader.AvailableBytes())
		require.NoError(s.t, s.reader.Flush())
		s.all()
		s.note("available: %d", s.reader.AvailableBytes())
		s.emit(3, noWakeup)
		s.reader.SetDeadline(past)
		s.all()
	}
	all["available"] = func(s *subject[ringControl]) {
		s.emit(500, 0)
		for s.reader.AvailableBytes() > 0 {
			s.next()
		}
	}
	compare(t, all, map[string]func(collection) *subject[ringControl]{
		"theirs": func(c collection) *subject[ringControl] {
			r, err := theirringbuf.NewReader(c.Maps["shared"])
			require.NoError(c.t, err)
			return subjectOf[ringControl](c, workload.Shared, r, func(rec theirringbuf.Record) theirperf.Record {
				return theirperf.Record{RawSample: rec.RawSample, Remaining: rec.Remaining}
			})
		},
		"ours": func(c collection) *subject[ringControl] {
			r, err := ringbuf.NewReader(c.Maps["shared"])
			require.NoError(c.t, err)
			return subjectOf[ringControl](c, workload.Shared, r, func(rec ringbuf.Record) theirperf.Record {
				return theirperf.Record{RawSample: rec.RawSample, Remaining: rec.Remaining}
			})
		},
	})
}

// Both libraries refuse the same, in their own words.
func TestRefusedLikeCilium(t *testing.T) {
	c := load(t)
	for _, o := range []struct {
		m    string
		size int
		opts theirperf.ReaderOptions
	}{
		{"events", 0, theirperf.ReaderOptions{}},
		{"events", 4096, theirperf.ReaderOptions{WakeupEvents: 1, Watermark: 1}},
		{"events", 4096, theirperf.ReaderOptions{Watermark: 4096}},
		{"array", 4096, theirperf.ReaderOptions{}},
	} {
		_, err := theirperf.NewReaderWithOptions(c.Maps[o.m], o.size, o.opts)
		require.Error(t, err)
		_, err = perf.NewReaderWithOptions(c.Maps[o.m], o.size, perf.ReaderOptions{WakeupEvents: o.opts.WakeupEvents, Watermark: o.opts.Watermark})
		require.Error(t, err)
	}
	_, err := theirringbuf.NewReader(c.Maps["events"])
	require.Error(t, err)
	_, err = ringbuf.NewReader(c.Maps["events"])
	require.Error(t, err)
}

// Records come in the order in which they were output, over all CPUs.
func TestPerfInOrder(t *testing.T) {
	c := load(t)
	r, err := perf.NewReader(c.Maps["events"], 64*os.Getpagesize())
	require.NoError(t, err)
	defer r.Close()
	const rounds = 300
	c.emit(rounds)
	var rec perf.Record
	for i := range rounds * len(c.cpus) {
		require.NoError(t, r.ReadInto(&rec))
		p, err := kerneltest.Check(rec.RawSample)
		require.NoError(t, err)
		require.Equal(t, c.cpus[i%len(c.cpus)], p.CPU)
		require.Equal(t, p.CPU, rec.CPU)
		require.EqualValues(t, i/len(c.cpus), p.Seq)
	}
}
