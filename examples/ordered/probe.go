package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

//go:embed ordered.bpf.o
var object []byte

// probe is the source of real events: the BPF programs of ordered.bpf.c, in the kernel.
type probe struct {
	sched  bool
	module *libbpfgo.Module
	clock  func() uint64
}

// open loads the programs, and opens their map.
func (p *probe) open(o perfbuf.Options) (*perfbuf.Reader, error) {
	p.clock = newClock()
	warnings.reset()
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: warnings.log})
	events, err := p.load()
	if err != nil {
		return nil, explain(err)
	}
	r, err := perfbuf.Open(events.FileDescriptor(), o)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w.%s", err, instead)
	}
	return r, err
}

// load returns the perf event array.
func (p *probe) load() (events *libbpfgo.BPFMap, err error) {
	// Raising the limit on locked memory takes CAP_SYS_RESOURCE, and is not needed since Linux 5.11: libbpf knows.
	p.module, err = libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "ordered", SkipMemlockBump: true})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"on_wakeup", "on_switch"} {
		prog, err := p.module.GetProgram(name)
		if err != nil {
			return nil, err
		}
		if err := prog.SetAutoload(p.sched); err != nil {
			return nil, err
		}
	}
	if err := p.module.BPFLoadObject(); err != nil {
		return nil, err
	}
	return p.module.GetMap("events")
}

func (p *probe) attach() error {
	if err := p.module.AttachPrograms(); err != nil {
		return explain(err)
	}
	return nil
}

func (p *probe) detach() error { return p.module.DetachPrograms() }

func (p *probe) now() uint64 { return p.clock() }

// close detaches and unloads the programs.
func (p *probe) close() {
	if p.module != nil {
		p.module.Close()
	}
}

// instead is for those who may not load BPF programs.
const instead = "\nTo see it without: ordered -simulate."

const kernelBTF = "/sys/kernel/btf/vmlinux"

// explain says what the user can do about a failure to load the programs.
func explain(err error) error {
	if missing := missingCaps(); len(missing) > 0 && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: uid %d lacks %s.\nRun it as root (sudo), or grant that: setcap cap_bpf,cap_perfmon+ep %s (before Linux 5.8, or where kernel.perf_event_paranoid is above 2: cap_sys_admin+ep).%s",
			err, os.Geteuid(), strings.Join(missing, " and "), os.Args[0], instead)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w, though uid %d has the capabilities: a sandbox forbids it, such as seccomp or a container.%s%s", err, os.Geteuid(), &warnings, instead)
	}
	if _, none := os.Stat(kernelBTF); none != nil {
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
