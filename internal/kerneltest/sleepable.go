//go:build linux && cgo

package kerneltest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/workload"
)

//go:embed sleepable.bpf.o
var sleepableObject []byte

// Programs are some of the programs in sleepable.bpf.c, loaded together.
type Programs struct {
	t      testing.TB
	module *libbpfgo.Module
}

// LoadPrograms loads only these programs, in the order of the source, with their own maps, and
// unloads them when the test ends. If the kernel refuses one, the error has the verifier's words.
func LoadPrograms(t testing.TB, names ...string) (*Programs, error) {
	t.Helper()
	Require(t)
	m, err := workload.Open(sleepableObject)
	if err != nil {
		t.Fatalf("opening sleepable.bpf.o: %v", err)
	}
	t.Cleanup(m.Close)
	p := &Programs{t, m}
	for _, name := range names {
		if err := p.program(name).SetAutoload(true); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	said, err := warnings(m.BPFLoadObject)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return p, nil
}

// warnings calls f and returns libbpf's warnings meanwhile instead of printing them.
func warnings(f func() error) (string, error) {
	var said strings.Builder
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: func(level int, msg string) {
		if level <= libbpfgo.LibbpfWarnLevel {
			said.WriteString(msg)
		}
	}})
	defer libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: workload.PrintWarning})
	err := f()
	return said.String(), err
}

func (p *Programs) program(name string) *libbpfgo.BPFProg {
	p.t.Helper()
	prog, err := p.module.GetProgram(name)
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	return prog
}

func (p *Programs) mapNamed(name string) *libbpfgo.BPFMap {
	p.t.Helper()
	m, err := p.module.GetMap(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// FD is a program that is loaded.
func (p *Programs) FD(name string) int {
	p.t.Helper()
	return p.program(name).FileDescriptor()
}

// SetCalled has the programs that call one call this one, of these programs or of others.
func (p *Programs) SetCalled(prog int) error {
	p.t.Helper()
	key, value := uint32(0), uint32(prog)
	return p.mapNamed("calls").Update(unsafe.Pointer(&key), unsafe.Pointer(&value))
}

// MapFD is the perf event array that programs output to.
func (p *Programs) MapFD() int { return p.mapNamed("events").FileDescriptor() }

// ShowArray puts that array into the map in which "slow" finds one.
func (p *Programs) ShowArray() {
	p.t.Helper()
	key, value := uint32(0), uint32(p.MapFD())
	if err := p.mapNamed("arrays").Update(unsafe.Pointer(&key), unsafe.Pointer(&value)); err != nil {
		p.t.Fatal(err)
	}
}

// Run runs a program, with a number as its context if it has one, and returns the error of its
// output. It may be called from any goroutine.
func (p *Programs) Run(name string, arg uint64) error {
	prog, err := p.module.GetProgram(name)
	if err != nil {
		return err
	}
	ctx := binary.NativeEndian.AppendUint64(nil, arg)
	ret, err := bpf.ProgTestRun(prog.FileDescriptor(), nil, ctx, -1)
	if err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return errno(int64(int32(ret)))
}
