//go:build linux && cgo

package kerneltest

import (
	_ "embed"
	"encoding/binary"
	"testing"

	"github.com/aquasecurity/libbpfgo"
	"golang.org/x/sys/unix"
)

//go:embed nested.bpf.o
var nestedObject []byte

// Nester outputs to a perf event array, and in interrupts that come amid these outputs.
type Nester struct {
	t            testing.TB
	MapFD        int
	outer, inner *libbpfgo.BPFProg
}

// Nested is an output of a Nester: its number among those of its CPU of the same kind, whether an interrupt has made it, and amid another output.
type Nested struct {
	Number          uint64
	Interrupt, Amid bool
}

// LoadNester loads the programs and unloads them when the test ends.
func LoadNester(t testing.TB) *Nester {
	t.Helper()
	Require(t)
	quiet()
	m, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: nestedObject, BPFObjName: "nested", SkipMemlockBump: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	if err := m.BPFLoadObject(); err != nil {
		t.Fatal(err)
	}
	events, err := m.GetMap("events")
	if err != nil {
		t.Fatal(err)
	}
	n := &Nester{t: t, MapFD: events.FileDescriptor()}
	for name, prog := range map[string]**libbpfgo.BPFProg{"outer": &n.outer, "inner": &n.inner} {
		if *prog, err = m.GetProgram(name); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// Interrupt has a timer's interrupt output, on a CPU and as often as each 20 us of its time, until the test ends.
func (n *Nester) Interrupt(cpu int) {
	n.t.Helper()
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER5, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: 20_000}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { unix.Close(fd) })
	for _, op := range []struct{ request, arg int }{{unix.PERF_EVENT_IOC_SET_BPF, n.inner.FileDescriptor()}, {unix.PERF_EVENT_IOC_ENABLE, 0}} {
		if err := unix.IoctlSetInt(fd, uint(op.request), op.arg); err != nil {
			n.t.Fatal(err)
		}
	}
}

// Output makes 64 outputs on a CPU.
func (n *Nester) Output(cpu int) error {
	ret, err := run(n.outer, cpu, 0, 0)
	if err != nil {
		return err
	}
	return errno(int64(ret))
}

// Nested decodes a payload.
func (*Nester) Nested(b []byte) Nested {
	return Nested{binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint32(b[8:]) != 0, binary.NativeEndian.Uint32(b[12:]) != 0}
}
