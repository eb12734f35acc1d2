//go:build linux && cgo

package workload

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	_ "github.com/ringfold/ringfold/cgo" // links libbpf
	"github.com/ringfold/ringfold/internal/bpf"
	"golang.org/x/sys/unix"
)

// Config says what to load.
type Config struct {
	Maps     []Map    // none: Events
	Programs []string // besides run, bare and control
	Bytes    int      // of Shared; 0: 64 KiB
	Shards   int      // entries of Shards and of Groups; 0: 8
	Lanes    bool     // Events has lanes: Lane0 and Lane1
	BootTime bool     // payloads' times are of CLOCK_BOOTTIME
	// Overwrite makes programs overwrite the oldest records of Shared, Shards and Groups (Linux
	// 6.19).
	Overwrite bool
}

// TracePrograms are those of Programs.Attach.
func TracePrograms() (names []string) {
	for _, s := range Traced {
		names = append(names, "on_"+s.String())
	}
	return names
}

// module is libbpf's object.
type module struct {
	*libbpfgo.Module
	maps     map[string]*libbpfgo.BPFMap
	programs map[string]*libbpfgo.BPFProg
}

func (m *module) MapFD(name string) int  { return m.maps[name].FileDescriptor() }
func (m *module) ProgFD(name string) int { return m.programs[name].FileDescriptor() }

func (m *module) Attach(program string) (detach func() error, err error) {
	link, err := m.programs[program].AttachGeneric()
	if err != nil {
		return nil, err
	}
	return link.Destroy, nil
}

// Module is that of Load.
func (p *Programs) Module() *libbpfgo.Module { return p.object.(*module).Module }

// Load loads the programs. That takes root, or CAP_BPF and CAP_PERFMON.
func Load(c Config) (*Programs, error) {
	quiet()
	object, err := Open(Object)
	if err != nil {
		return nil, fmt.Errorf("opening workload.bpf.o: %w", err)
	}
	m := &module{object, map[string]*libbpfgo.BPFMap{}, map[string]*libbpfgo.BPFProg{}}
	cpus, err := libbpfgo.NumPossibleCPUs()
	if err == nil {
		err = m.load(c, cpus)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("loading workload.bpf.o: %w", err)
	}
	return Loaded(m, cpus)
}

// Open opens a BPF object, as NewModuleFromBufferArgs does. The libbpfgo in go.mod, the oldest with
// which the tests work, raises RLIMIT_MEMLOCK for a buffer. That takes CAP_SYS_RESOURCE, and is not
// needed since Linux 5.11. For a file it can be told not to.
func Open(object []byte) (*libbpfgo.Module, error) {
	fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "object")
	defer file.Close()
	if _, err := file.Write(object); err != nil {
		return nil, err
	}
	return libbpfgo.NewModuleFromFileArgs(libbpfgo.NewModuleArgs{BPFObjPath: fmt.Sprintf("/proc/self/fd/%d", fd), SkipMemlockBump: true})
}

func (m *module) load(c Config, cpus int) error {
	all := m.Iterator()
	for one := all.NextMap(); one != nil; one = all.NextMap() {
		m.maps[one.Name()] = one
	}
	for prog := all.NextProgram(); prog != nil; prog = all.NextProgram() {
		m.programs[prog.Name()] = prog
	}
	if err := m.chooseMaps(c, cpus); err != nil {
		return err
	}
	if c.Overwrite {
		fd, err := m.overwrite(c.Bytes)
		if err != nil {
			return err
		}
		defer unix.Close(fd) // libbpf needs the template until it has loaded the object
	}
	for _, name := range append([]string{"run", "bare", "control"}, c.Programs...) {
		if m.programs[name] == nil {
			return fmt.Errorf("there is no program %q", name)
		}
		if err := m.programs[name].SetAutoload(true); err != nil {
			return err
		}
	}
	if c.BootTime {
		if err := m.InitGlobalVariable("boot_time", uint8(1)); err != nil {
			return err
		}
	}
	return m.BPFLoadObject()
}

func (m *module) chooseMaps(c Config, cpus int) error {
	if len(c.Maps) == 0 {
		c.Maps = []Map{Events}
	}
	mask := uint32(0)
	for one := range maps {
		if slices.Contains(c.Maps, one) {
			mask |= 1 << one
		} else if err := m.maps[one.String()].SetAutocreate(false); err != nil {
			return err
		}
	}
	if c.Lanes {
		mask |= 1 << Lane0
	} else if !slices.Contains(c.Programs, "laned") {
		if err := m.maps["lanes"].SetAutocreate(false); err != nil {
			return err
		}
	}
	for name, by := range map[string]uint32{"shared_lanes": 1 << Shared, "shards_lanes": 1<<Shards | 1<<Groups} {
		if mask&by == 0 {
			if err := m.maps[name].SetAutocreate(false); err != nil {
				return err
			}
		}
	}
	for name, entries := range map[string]int{
		"shared": c.Bytes, "shards": c.Shards, "groups": c.Shards, "patterns": cpus,
	} {
		if entries > 0 {
			if err := m.maps[name].SetMaxEntries(uint32(entries)); err != nil {
				return err
			}
		}
	}
	return m.InitGlobalVariable("maps", mask)
}

// overwrite replaces the ring buffers of the object: libbpfgo cannot change a map's flags.
func (m *module) overwrite(bytes int) (fd int, err error) {
	if fd, err = NewRingBuf(cmp.Or(bytes, 1<<16), true); err != nil {
		return -1, err
	}
	return fd, errors.Join(m.maps["shards"].SetInnerMap(fd), m.maps["groups"].SetInnerMap(fd), m.maps["shared"].ReuseFD(fd))
}

// quiet keeps libbpf's messages below warnings to itself.
var quiet = sync.OnceFunc(func() { libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: PrintWarning}) })

// PrintWarning is libbpfgo's logger from Load on.
func PrintWarning(level int, msg string) {
	if level <= libbpfgo.LibbpfWarnLevel {
		fmt.Fprint(os.Stderr, msg)
	}
}

// NewRingBuf creates a ring buffer, whose oldest records programs may overwrite. The caller closes
// it.
func NewRingBuf(bytes int, overwrite bool) (fd int, err error) {
	var opts libbpfgo.BPFMapCreateOpts
	if overwrite {
		opts.MapFlags = bpf.FlagOverwrite
	}
	m, err := libbpfgo.CreateMap(libbpfgo.MapTypeRingbuf, "shard", 0, 0, bytes, &opts)
	if err != nil {
		return -1, err
	}
	return m.FileDescriptor(), nil
}

// SetShard stores a ring buffer for a CPU in Shards, and in Groups for the CPUs 2*key and 2*key+1.
func (p *Programs) SetShard(m Map, key, fd int) error {
	wide, value := uint64(key), uint32(fd)
	narrow := uint32(key)
	at := unsafe.Pointer(&narrow)
	if m == Groups {
		at = unsafe.Pointer(&wide)
	}
	return p.object.(*module).maps[m.String()].Update(at, unsafe.Pointer(&value))
}

// FillShards stores a ring buffer of so many bytes for each possible CPU.
func (p *Programs) FillShards(bytes int) error {
	for cpu := range p.CPUs {
		fd, err := NewRingBuf(bytes, false)
		if err != nil {
			return fmt.Errorf("a ring buffer for CPU %d: %w", cpu, err)
		}
		err = p.SetShard(Shards, cpu, fd)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// Misses counts the runs that the kernel refused as the program was running on that CPU. Before
// Linux 5.12 it does not say.
func (p *Programs) Misses() (sum uint64) {
	for _, prog := range p.object.(*module).programs {
		// A program that was not loaded has none.
		info, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", prog.FileDescriptor()))
		for line := range strings.Lines(string(info)) {
			var n uint64
			if _, err := fmt.Sscanf(line, "recursion_misses: %d", &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}
