//go:build linux && cgo

package kerneltest

import (
	_ "embed"
	"encoding/binary"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/workload"
)

//go:embed outputs.bpf.o
var outputsObject []byte

// MaxOutput is the largest payload of Counter.Output.
const MaxOutput = 1 << 17

// Counter is a program that outputs with bpf/perfbuf_output.h, and keeps count by itself.
type Counter struct {
	t      testing.TB
	module *libbpfgo.Module
	output *libbpfgo.BPFProg
	nests  []*libbpfgo.BPFProg
	life   []*libbpfgo.BPFProg
}

// counterState is struct state of outputs.bpf.c, one per possible CPU.
type counterState struct {
	Results                           [3][256]uint64 // by lane
	Nesting, Nested, Faulting, Faults uint64
}

// CounterOptions say how to load a Counter.
type CounterOptions struct {
	Entries int // of the perf event array; 0: as many as there may be CPUs
	// Nest also loads programs that output within outputs. The test is skipped if the machine
	// cannot run them.
	Nest bool
	// Life also loads the programs of AttachLife.
	Life bool
}

// LoadCounter loads it, and unloads it when the test ends. See Load.
func LoadCounter(t testing.TB, opts CounterOptions) *Counter {
	t.Helper()
	Require(t)
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: workload.PrintWarning})
	m, err := workload.Open(outputsObject)
	if err != nil {
		t.Fatalf("opening outputs.bpf.o: %v", err)
	}
	t.Cleanup(m.Close)
	c := &Counter{t: t, module: m}
	if c.output, err = m.GetProgram("output"); err != nil {
		t.Fatal(err)
	}
	if opts.Entries > 0 {
		if err := c.mapNamed("events").SetMaxEntries(uint32(opts.Entries)); err != nil {
			t.Fatal(err)
		}
	}
	if opts.Life {
		c.life = c.autoload("on_fork", "on_exec", "on_exit")
	}
	if opts.Nest {
		c.loadNests()
	} else if err := m.BPFLoadObject(); err != nil {
		t.Fatalf("loading outputs.bpf.o: %v", err)
	}
	return c
}

func (c *Counter) autoload(names ...string) (progs []*libbpfgo.BPFProg) {
	c.t.Helper()
	for _, name := range names {
		prog, err := c.module.GetProgram(name)
		if err == nil {
			err = prog.SetAutoload(true)
		}
		if err != nil {
			c.t.Fatalf("%s: %v", name, err)
		}
		progs = append(progs, prog)
	}
	return progs
}

func (c *Counter) loadNests() {
	c.t.Helper()
	c.nests = c.autoload("nest0", "nest1", "nest2", "nest3")
	if err := c.module.BPFLoadObject(); err != nil {
		c.t.Skipf("no programs on kernel functions here: %v", err)
	}
	for _, prog := range c.nests {
		link, err := prog.AttachGeneric()
		if err != nil {
			c.t.Skipf("no programs on kernel functions here: %v", err)
		}
		c.t.Cleanup(func() { link.Destroy() })
	}
}

func (c *Counter) mapNamed(name string) *libbpfgo.BPFMap {
	c.t.Helper()
	m, err := c.module.GetMap(name)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// MapFD is the perf event array.
func (c *Counter) MapFD() int { return c.mapNamed("events").FileDescriptor() }

// LanesFD is the map of three lanes that perfbuf_output.h counts in.
func (c *Counter) LanesFD() int { return c.mapNamed("lanes").FileDescriptor() }

// SetEntry stores a perf event in the perf event array.
func (c *Counter) SetEntry(cpu, event int) {
	c.t.Helper()
	key, value := uint32(cpu), uint32(event)
	if err := c.mapNamed("events").Update(unsafe.Pointer(&key), unsafe.Pointer(&value)); err != nil {
		c.t.Fatal(err)
	}
}

// NestFDs are the programs that output within outputs.
func (c *Counter) NestFDs() (fds []int) {
	for _, prog := range c.nests {
		fds = append(fds, prog.FileDescriptor())
	}
	return fds
}

// Output outputs size bytes on a CPU in the first lane, and returns what that did: nil or an errno.
func (c *Counter) Output(cpu, size int) error { return c.run(cpu, size, 0, 0) }

// OutputIn is Output in a lane.
func (c *Counter) OutputIn(lane, cpu, size int) error { return c.run(cpu, size, 0, lane) }

// Nest is Output, in which each of the programs of NestFDs outputs whenever it can, in the first
// lane.
func (c *Counter) Nest(cpu, size int) error { return c.run(cpu, size, 1, 0) }

// Flood outputs so often on a CPU, at most 512 times: first so many in lane 2, then in lanes 0 and
// 1 in turn. It may be called from any goroutine.
func (c *Counter) Flood(cpu, size, count, important int) {
	prog, err := c.module.GetProgram("flood")
	if err == nil {
		_, err = run(prog, cpu, size, count, important)
	}
	if err != nil {
		c.t.Errorf("running flood on CPU %d: %v", cpu, err)
	}
}

// LifeSize is the size of the payloads of AttachLife.
const LifeSize = 24

// AttachLife has each fork, exec and exit output in lane 2, until detach. Programs that are running
// then go on to their end.
func (c *Counter) AttachLife() (detach func()) {
	c.t.Helper()
	var links []*libbpfgo.BPFLink
	for _, prog := range c.life {
		link, err := prog.AttachGeneric()
		if err != nil {
			c.t.Fatalf("attaching %s: %v", prog.Name(), err)
		}
		links = append(links, link)
	}
	detach = sync.OnceFunc(func() {
		for _, link := range links {
			link.Destroy()
		}
	})
	c.t.Cleanup(detach)
	return detach
}

func (c *Counter) run(cpu, size, nesting, lane int) error {
	c.t.Helper()
	ret, err := run(c.output, cpu, size, nesting, lane)
	if err != nil {
		c.t.Errorf("running output on CPU %d: %v", cpu, err)
	}
	return errno(int64(ret))
}

// run runs a program on a CPU, whose context is numbers.
func run(prog *libbpfgo.BPFProg, cpu int, numbers ...int) (ret int32, err error) {
	var args []byte
	for _, n := range numbers {
		args = binary.NativeEndian.AppendUint64(args, uint64(n))
	}
	n, err := bpf.ProgTestRun(prog.FileDescriptor(), nil, args, cpu)
	return int32(n), err
}

func errno(ret int64) error {
	if ret < 0 {
		return syscall.Errno(-ret)
	}
	return nil
}

func (c *Counter) faulty() *libbpfgo.BPFProg {
	c.t.Helper()
	prog, err := c.module.GetProgram("faulty")
	if err != nil {
		c.t.Fatal(err)
	}
	return prog
}

// FaultyFD is a program that runs in page faults of the kernel, and faults itself.
func (c *Counter) FaultyFD() int { return c.faulty().FileDescriptor() }

// AttachFaulty attaches it. The test is skipped where it cannot be.
func (c *Counter) AttachFaulty() {
	c.t.Helper()
	link, err := c.faulty().AttachGeneric()
	if err != nil {
		c.t.Skipf("no tracepoint for page faults of the kernel, which x86 has: %v", err)
	}
	c.t.Cleanup(func() { link.Destroy() })
}

// Fault faults on a CPU, for that program. It may be called from any goroutine.
func (c *Counter) Fault(cpu int) {
	prog, err := c.module.GetProgram("fault")
	if err == nil {
		_, err = run(prog, cpu, 0, 0)
	}
	if err != nil {
		c.t.Errorf("running fault on CPU %d: %v", cpu, err)
	}
}

// Faults returns how often that program has run on a CPU because of Fault.
func (c *Counter) Faults(cpu int) uint64 {
	c.t.Helper()
	return c.state(cpu).Faults
}

// Results returns how many outputs of a CPU in a lane had each result, 0 being success.
func (c *Counter) Results(cpu, lane int) map[syscall.Errno]uint64 {
	c.t.Helper()
	results := map[syscall.Errno]uint64{}
	for i, n := range c.state(cpu).Results[lane] {
		if n > 0 {
			results[syscall.Errno(i)] = n
		}
	}
	return results
}

// Nested returns how often the programs of NestFDs have output on a CPU.
func (c *Counter) Nested(cpu int) uint64 {
	c.t.Helper()
	return c.state(cpu).Nested
}

func (c *Counter) state(cpu int) (s counterState) {
	c.t.Helper()
	key := uint32(0)
	b, err := c.mapNamed("states").GetValue(unsafe.Pointer(&key))
	if err == nil {
		_, err = binary.Decode(b[cpu*binary.Size(s):], binary.NativeEndian, &s)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// SetLimit stores how many words of 8 bytes a CPU's ring may hold for outputs in a lane, as a
// reader does.
func (c *Counter) SetLimit(cpu, lane int, words uint32) {
	c.t.Helper()
	key := uint32(cpu)
	value, err := c.mapNamed("lanes").GetValue(unsafe.Pointer(&key))
	if err == nil {
		binary.NativeEndian.PutUint32(value[4+4*lane:], words)
		err = c.mapNamed("lanes").Update(unsafe.Pointer(&key), unsafe.Pointer(&value[0]))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
