package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/perf"
	"github.com/cilium/ebpf/ringbuf"
)

// record is a perf.Record or a ringbuf.Record. Read makes a new one each time, so that it may be kept.
type record struct {
	cpu     int
	payload []byte
	lost    uint64
}

// library is what both readers have.
type library interface {
	read() (record, error)
	SetDeadline(time.Time)
	Flush() error
	Close() error
}

type perfReader struct{ *perf.Reader }

func (r perfReader) read() (record, error) {
	rec, err := r.Read()
	return record{rec.CPU, rec.RawSample, rec.LostSamples}, err
}

type ringbufReader struct{ *ringbuf.Reader }

func (r ringbufReader) read() (record, error) {
	rec, err := r.Read()
	return record{-1, rec.RawSample, 0}, err
}

// source is a reader, and the goroutine that reads it.
type source struct {
	reader  *reader
	library library
	index   int
	ended   chan struct{} // closed when the goroutine ends; nil if there is none
	once    atomic.Bool   // it is to end with the next flush or deadline
	flushed chan struct{}
}

func (s *source) start() {
	if s.ended == nil {
		s.once.Store(false)
		s.launch()
	}
}

func (s *source) launch() {
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		s.loop()
	}()
}

func (s *source) wait() {
	if s.ended != nil {
		<-s.ended
		s.ended = nil
	}
}

// stop ends the goroutine. A Read that waits is interrupted by Flush alone.
func (s *source) stop() {
	if s.ended != nil {
		s.once.Store(true)
		s.flush()
		s.wait()
	}
}

func (s *source) flush() {
	if s.ended == nil {
		s.launch()
		defer s.wait()
	}
	if s.library.Flush() != nil { // closed
		return
	}
	select {
	case <-s.flushed:
	case <-s.ended:
	}
}

// limit waits once, for so long. The goroutine has been stopped.
func (s *source) limit(d time.Duration) {
	s.once.Store(true)
	s.library.SetDeadline(time.Now().Add(d))
	s.loop()
	s.library.SetDeadline(time.Time{})
}

func (s *source) loop() {
	r, errs := s.reader, 0
	if poll := r.settings.Poll; poll > 0 && !s.once.Load() {
		s.library.SetDeadline(time.Now().Add(poll))
	}
	for {
		rec, err := s.library.read()
		switch {
		case err == nil && rec.lost > 0:
			r.user.Lost(s.index, rec.cpu, rec.lost)
		case err == nil:
			if r.user.Event(s.index, rec.cpu, rec.payload) {
				for _, s := range r.sources {
					if err := s.library.Close(); err != nil {
						r.user.Error(err)
					}
				}
				r.user.Closed()
			}
		case errors.Is(err, os.ErrClosed):
			return
		case errors.Is(err, perf.ErrFlushed):
			select {
			case s.flushed <- struct{}{}:
			default:
			}
			if s.once.Load() {
				return
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			if s.once.Load() {
				return
			}
			s.library.SetDeadline(time.Now().Add(r.settings.Poll))
		default:
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // a record that is longer than what there is
				r.user.Damaged(s.index, err)
			} else {
				r.user.Error(err)
			}
			if errs++; errs == 100 {
				r.user.Error(fmt.Errorf("%d errors: the adapter gives up", errs))
				return
			}
			continue
		}
		errs = 0
	}
}
