package cilium

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	theirperf "github.com/cilium/ebpf/perf"
	"github.com/ringfold/ringfold/dropin/perf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/stretchr/testify/require"
)

// subject is a reader of either library. It notes what it reads.
type subject[C control] struct {
	collection
	reader C
	to     workload.Map
	read   func(into bool) (theirperf.Record, error)
	notes  []string
}

// subjectOf makes a subject of a reader, whose records become cilium/ebpf's.
func subjectOf[C control, R any](c collection, to workload.Map, r methods[R], record func(R) theirperf.Record) *subject[C] {
	c.t.Cleanup(func() { require.NoError(c.t, r.Close()) })
	var kept R
	return &subject[C]{collection: c, reader: any(r).(C), to: to, read: func(into bool) (theirperf.Record, error) {
		if into {
			err := r.ReadInto(&kept)
			return record(kept), err
		}
		one, err := r.Read()
		return record(one), err
	}}
}

// emit has the first CPU output so many events.
func (s *subject[C]) emit(count int, flags uint64) {
	const onCPU = 1 // BPF_F_TEST_RUN_ON_CPU
	ret, err := s.Programs["run"].Run(&ebpf.RunOptions{Context: [5]uint64{uint64(count), kerneltest.MinSize, uint64(s.to), flags}, Flags: onCPU, CPU: uint32(s.cpus[0])})
	require.NoError(s.t, err)
	require.Zero(s.t, int32(ret))
}

// next reads one record, and notes it. It reports whether there was one.
func (s *subject[C]) next() bool {
	rec, err := s.read(len(s.notes)%2 == 0)
	switch {
	case errors.Is(err, theirperf.ErrFlushed), errors.Is(err, perf.ErrFlushed):
		s.note("flushed")
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.note("deadline")
	case errors.Is(err, os.ErrClosed):
		s.note("closed")
	case err != nil:
		s.note("error %v", err)
	case rec.LostSamples > 0:
		s.note("lost %v, %d bytes", rec.LostSamples > 0, len(rec.RawSample))
	default:
		check := kerneltest.Check
		if s.to.IsRingBuf() {
			check = kerneltest.CheckRing
		}
		p, err := check(rec.RawSample)
		require.NoError(s.t, err)
		s.note("cpu %d of %d: %d, more: %v", rec.CPU, p.CPU, p.Seq, rec.Remaining > 0)
	}
	return err == nil
}

// all reads until there is an error.
func (s *subject[C]) all() {
	for s.next() {
	}
}

func (s *subject[C]) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

var past = time.Unix(1, 0)

const bufferSize = 16 << 10 // has room for 200 events, and not for 1,000

// scenarios are for readers of all kinds.
func scenarios[C control]() map[string]func(s *subject[C]) {
	return map[string]func(s *subject[C]){
		"poll": func(s *subject[C]) {
			s.reader.SetDeadline(past)
			for n := range 4 {
				s.emit(n, 0)
				s.all()
				s.all()
			}
		},
		"deadline": func(s *subject[C]) {
			s.reader.SetDeadline(time.Now().Add(10 * time.Millisecond))
			s.all()
			s.emit(3, 0)
			s.all()
			s.reader.SetDeadline(time.Time{})
			s.emit(100, 0) // enough to wake each
			for range 100 {
				s.next()
			}
		},
		"flush": func(s *subject[C]) {
			s.emit(3, 0)
			for range 2 {
				s.note("flush: %v", s.reader.Flush())
				s.note("flush: %v", s.reader.Flush())
				s.all()
				s.emit(200, 0)
			}
			s.note("flush: %v", s.reader.Flush())
			s.all()
			s.reader.SetDeadline(past)
			s.all()
		},
		"flush while it waits": func(s *subject[C]) {
			go func() {
				time.Sleep(10 * time.Millisecond)
				s.reader.Flush()
			}()
			s.all()
		},
		"close while it waits": func(s *subject[C]) {
			closed := make(chan error)
			go func() {
				time.Sleep(10 * time.Millisecond)
				closed <- s.reader.Close()
			}()
			s.all()
			s.note("close: %v", <-closed)
			s.note("close: %v", s.reader.Close())
			s.note("flush: %v", errors.Is(s.reader.Flush(), os.ErrClosed))
			s.all()
		},
		"close before the rest": func(s *subject[C]) {
			s.emit(100, 0)
			s.next()
			s.note("close: %v", s.reader.Close())
			s.all()
		},
		"size": func(s *subject[C]) { s.note("size: %d", s.reader.BufferSize()) },
	}
}

// compare runs scenarios with cilium/ebpf's reader and with ours.
func compare[C control](t *testing.T, scenarios map[string]func(*subject[C]), open map[string]func(c collection) *subject[C]) {
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			notes := map[string][]string{}
			for whose, open := range open {
				s := open(load(t))
				scenario(s)
				require.NotEmpty(t, s.notes)
				notes[whose] = s.notes
			}
			require.Equal(t, notes["theirs"], notes["ours"])
		})
	}
}
