package source

import (
	_ "embed"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

//go:embed fleet.bpf.o
var object []byte

// Real is this host: the BPF programs of fleet.bpf.c, in the kernel. The zero value is ready.
type Real struct {
	module   *libbpfgo.Module
	complete uint64 // since when all programs are attached
}

// Open loads the programs. It takes CAP_BPF and CAP_PERFMON; the error says what is missing.
func (s *Real) Open() (*perfbuf.Reader, error) {
	bpfload.Listen()
	// Raising the limit on locked memory takes CAP_SYS_RESOURCE, and is not needed since Linux 5.11: libbpf knows.
	module, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "fleet", SkipMemlockBump: true})
	if err != nil {
		return nil, bpfload.Explain(err)
	}
	s.module = module
	if err := module.BPFLoadObject(); err != nil {
		return nil, bpfload.Explain(err)
	}
	events, err := module.GetMap("events")
	if err != nil {
		return nil, err
	}
	return perfbuf.Open(events.FileDescriptor(), perfbuf.Options{})
}

func (s *Real) Attach() error {
	if err := s.module.AttachPrograms(); err != nil {
		return bpfload.Explain(err)
	}
	s.complete = s.Now()
	return nil
}

func (s *Real) Detach() error { return s.module.DetachPrograms() }

func (s *Real) Decode(ev perfbuf.Event, e *wire.Event) error {
	if ev.Time() < s.complete {
		return ErrSkip
	}
	return decode(ev, e)
}

func (s *Real) Now() uint64 { return monotonic() }

func (s *Real) Close() {
	if s.module != nil {
		s.module.Close()
		s.module = nil
	}
}

func monotonic() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // it exists everywhere
	}
	return uint64(t.Nano())
}
