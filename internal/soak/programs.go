//go:build linux && cgo

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
)

//go:embed soak.bpf.o
var object []byte

// Of soak.bpf.c.
const (
	levels       = 8
	patternSlots = 64
	minSize      = 32
	maxSize      = minSize + 511
	maxBurst     = 512
	slotWords    = patternSlots + (maxSize+7)/8
)

// Words of struct cpu and of struct slot before the words that outputs are made of.
const (
	cpuWords  = 2
	slotHead  = 8 + 2*len(mapNames)
	slotTotal = slotHead + slotWords
)

// sources are the names of enum source, from 1.
var sources = []string{"syscall", "switch", "wakeup", "softirq", "timer", "hrtimer", "burst"}

type programs struct {
	module  *libbpfgo.Module
	events  *libbpfgo.BPFMap
	cpus    *libbpfgo.BPFMap
	burst   *libbpfgo.BPFProg
	pattern []uint64

	links []*libbpfgo.BPFLink
	// Runs that the kernel refused, as the program was running on that CPU; unknown before Linux 5.12.
	recursions uint64
}

// loadPrograms loads them, without attaching any.
func loadPrograms() (*programs, error) {
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{LogFilters: []func(int, string) bool{
		func(level int, _ string) (skip bool) { return level > libbpfgo.LibbpfWarnLevel },
	}})
	m, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{
		BPFObjBuff: object, BPFObjName: "soak", SkipMemlockBump: true,
	})
	if err != nil {
		return nil, fmt.Errorf("opening soak.bpf.o: %w", err)
	}
	p := &programs{module: m}
	if err := p.prepare(); err != nil {
		m.Close()
		return nil, err
	}
	return p, nil
}

func (p *programs) close() { p.module.Close() }

func (p *programs) prepare() (err error) {
	if err := p.module.BPFLoadObject(); err != nil {
		return fmt.Errorf("loading soak.bpf.o: %w", err)
	}
	if p.events, err = p.module.GetMap("events"); err != nil {
		return err
	}
	if p.cpus, err = p.module.GetMap("cpus"); err != nil {
		return err
	}
	if p.burst, err = p.module.GetProgram("burst"); err != nil {
		return err
	}
	if err := p.setPattern(); err != nil {
		return err
	}
	adopt, err := p.module.GetProgram("adopt")
	if err != nil {
		return err
	}
	if err := adopt.Run(&libbpfgo.RunOpts{}); err != nil {
		return fmt.Errorf("running a program (BPF_PROG_TEST_RUN): %w", err)
	}
	return nil
}

func (p *programs) setPattern() error {
	for i := range slotWords {
		p.pattern = append(p.pattern, uint64(i+1)*0xD6E8FEB86659FD93)
	}
	n, err := libbpfgo.NumPossibleCPUs()
	if err != nil {
		return err
	}
	var all []uint64
	for range n {
		all = append(all, make([]uint64, cpuWords)...)
		for range levels {
			all = append(append(all, make([]uint64, slotHead)...), p.pattern...)
		}
	}
	if err := p.fillShards(n); err != nil {
		return err
	}
	key := uint32(0)
	return p.cpus.Update(unsafe.Pointer(&key), unsafe.Pointer(unsafe.SliceData(all)))
}

// program returns the one of a source.
func (p *programs) program(source string) (*libbpfgo.BPFProg, error) {
	if source == "burst" {
		return p.burst, nil
	}
	return p.module.GetProgram("on_" + source)
}

// attach starts all sources but bursts, unless they run. A kernel may lack one, but not all.
func (p *programs) attach() error {
	if p.links != nil {
		return nil
	}
	var missing error
	for _, name := range sources {
		if name == "burst" {
			continue
		}
		prog, err := p.program(name)
		if err != nil {
			return err
		}
		link, err := prog.AttachGeneric()
		if err != nil {
			missing = errors.Join(missing, fmt.Errorf("attaching %s: %w", name, err))
			continue
		}
		p.links = append(p.links, link)
	}
	if len(p.links) == 0 {
		return missing
	}
	if missing != nil {
		fmt.Fprintln(os.Stderr, "soak: without some sources:", missing)
	}
	return nil
}

func (p *programs) detach() error {
	var errs error
	for _, name := range sources {
		prog, err := p.program(name)
		if err != nil {
			return err
		}
		p.recursions += misses(prog.FileDescriptor())
	}
	for _, link := range p.links {
		errs = errors.Join(errs, link.Destroy())
	}
	p.links = nil
	return errs
}

// misses reads how often the kernel refused to run a program within itself.
func misses(fd int) (n uint64) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(info)) {
		if _, err := fmt.Sscanf(line, "recursion_misses: %d", &n); err == nil {
			return n
		}
	}
	return 0
}
