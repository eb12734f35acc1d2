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
	"golang.org/x/sys/unix"
)

//go:embed ordered.bpf.o
var object []byte

// probe is the BPF programs of ordered.bpf.c, in the kernel.
type probe struct {
	module *libbpfgo.Module
	events int // descriptor of the perf event array
}

// loadProbe loads the programs, but does not attach them yet.
func loadProbe(sched bool) (*probe, error) {
	warnings.reset()
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: warnings.log})

	// Raising the limit on locked memory takes CAP_SYS_RESOURCE, and is not needed since Linux 5.11: libbpf knows.
	m, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "ordered", SkipMemlockBump: true})
	if err != nil {
		return nil, explain(err)
	}
	p := &probe{module: m}
	if err := p.load(sched); err != nil {
		m.Close()
		return nil, explain(err)
	}
	return p, nil
}

func (p *probe) load(sched bool) error {
	for _, name := range []string{"on_wakeup", "on_switch"} {
		prog, err := p.module.GetProgram(name)
		if err != nil {
			return err
		}
		if err := prog.SetAutoload(sched); err != nil {
			return err
		}
	}
	if err := p.module.BPFLoadObject(); err != nil {
		return err
	}
	events, err := p.module.GetMap("events")
	if err != nil {
		return err
	}
	p.events = events.FileDescriptor()
	return nil
}

// attach starts the flow of events.
func (p *probe) attach() error {
	if err := p.module.AttachPrograms(); err != nil {
		return explain(err)
	}
	return nil
}

// detach ends it. A program may still be running on another CPU then.
func (p *probe) detach() error { return p.module.DetachPrograms() }

// close detaches and unloads the programs.
func (p *probe) close() { p.module.Close() }

const kernelBTF = "/sys/kernel/btf/vmlinux"

// explain says what the user can do about a failure to load the programs.
func explain(err error) error {
	if missing := missingCaps(); len(missing) > 0 && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: uid %d lacks %s.\nRun it as root (sudo), or grant that: setcap cap_bpf,cap_perfmon+ep %s (before Linux 5.8, or where kernel.perf_event_paranoid is above 2: cap_sys_admin+ep)",
			err, os.Geteuid(), strings.Join(missing, " and "), os.Args[0])
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w, though uid %d has the capabilities: a sandbox forbids it, such as seccomp or a container.%s", err, os.Geteuid(), &warnings)
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
