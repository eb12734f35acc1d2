package source

import (
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
)

// Real is this host. The zero value is ready.
type Real struct {
	probe    *lifecycle.Probe
	complete uint64 // since when all programs are attached
}

// Open loads the programs. It takes CAP_BPF and CAP_PERFMON; the error says what is missing.
func (s *Real) Open() (reader *perfbuf.Reader, err error) {
	if s.probe, err = lifecycle.Load(); err != nil {
		return nil, err
	}
	return s.probe.Open(perfbuf.Options{})
}

func (s *Real) Attach() error {
	if err := s.probe.Attach(); err != nil {
		return err
	}
	s.complete = s.Now()
	return nil
}

func (s *Real) Detach() error { return s.probe.Detach() }

func (s *Real) Decode(ev perfbuf.Event, e *wire.Event) error {
	if ev.Time() < s.complete {
		return ErrSkip
	}
	return decode(ev, e)
}

func (s *Real) Now() uint64 { return perfbuf.Now() }

func (s *Real) Close() {
	if s.probe != nil {
		s.probe.Close()
		s.probe = nil
	}
}
