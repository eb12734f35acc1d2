package source

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/examples/fleet/wire"
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
	warnings.reset()
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: warnings.log})
	// Raising the limit on locked memory takes CAP_SYS_RESOURCE, and is not needed since Linux 5.11: libbpf knows.
	module, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "fleet", SkipMemlockBump: true})
	if err != nil {
		return nil, explain(err)
	}
	s.module = module
	if err := module.BPFLoadObject(); err != nil {
		return nil, explain(err)
	}
	events, err := module.GetMap("events")
	if err != nil {
		return nil, err
	}
	return perfbuf.Open(events.FileDescriptor(), perfbuf.Options{})
}

func (s *Real) Attach() error {
	if err := s.module.AttachPrograms(); err != nil {
		return explain(err)
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

// explain says what the user can do about a failure to load the programs.
func explain(err error) error {
	if missing := missingCaps(); len(missing) > 0 && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: uid %d lacks %s.\nRun it as root (sudo), or grant that: setcap cap_bpf,cap_perfmon+ep %s (before Linux 5.8, or where kernel.perf_event_paranoid is above 2: cap_sys_admin+ep)",
			err, os.Geteuid(), strings.Join(missing, " and "), os.Args[0])
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w, though uid %d has the capabilities: a sandbox forbids it, such as seccomp or a container%s", err, os.Geteuid(), &warnings)
	}
	if _, none := os.Stat("/sys/kernel/btf/vmlinux"); none != nil {
		return fmt.Errorf("the kernel has no BTF, the description of its types (%w).\nIt takes one built with CONFIG_DEBUG_INFO_BTF=y, as those of most distributions are", none)
	}
	return fmt.Errorf("%w%s", err, &warnings)
}

// missingCaps names the capabilities that this thread lacks.
func missingCaps() (names []string) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&header, &caps[0]) != nil {
		return nil
	}
	has := func(c int) bool { return caps[c/32].Effective>>(c%32)&1 != 0 }
	if has(unix.CAP_SYS_ADMIN) { // includes the others
		return nil
	}
	if !has(unix.CAP_BPF) {
		names = append(names, "CAP_BPF")
	}
	if !has(unix.CAP_PERFMON) {
		names = append(names, "CAP_PERFMON")
	}
	return names
}

// warnings keeps what libbpf warns of, for those who get an error that needs it.
var warnings logger

type logger struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logger) log(level int, msg string) {
	if level > libbpfgo.LibbpfWarnLevel {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(msg)
}

func (l *logger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// String is the warnings as lines of their own, to follow an error.
func (l *logger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(l.text.String())
}
