//go:build linux && cgo

package workload

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	_ "github.com/ringfold/ringfold/cgo" // links libbpf
	"github.com/ringfold/ringfold/internal/bpf"
	"golang.org/x/sys/unix"
)

//go:embed workload.bpf.o
var object []byte

// Config says what to load.
type Config struct {
	Maps     []Map    // none: Events
	Programs []string // besides run, bare and control
	Entries  int      // of Events; 0: one for each possible CPU
	Bytes    int      // of Shared; 0: 64 KiB
	Shards   int      // entries of Shards and of Groups; 0: 8
	Lanes    bool     // Events has lanes: Lane0 and Lane1
	BootTime bool     // payloads' times are of CLOCK_BOOTTIME
	Syscall  uint64   // if not 0: the only system call whose entry outputs, by any process
}

// TracePrograms are those of Programs.Attach.
func TracePrograms() (names []string) {
	for _, s := range Traced {
		names = append(names, "on_"+s.String())
	}
	return names
}

// Programs are loaded, with maps of their own.
type Programs struct {
	Module *libbpfgo.Module
	CPUs   int // possible ones
	links  []*libbpfgo.BPFLink

	maps     map[string]*libbpfgo.BPFMap
	programs map[string]*libbpfgo.BPFProg
}

// Load loads the programs. That takes root, or CAP_BPF and CAP_PERFMON.
func Load(c Config) (*Programs, error) {
	quiet()
	m, err := Open(object)
	if err != nil {
		return nil, fmt.Errorf("opening workload.bpf.o: %w", err)
	}
	p := &Programs{Module: m, maps: map[string]*libbpfgo.BPFMap{}, programs: map[string]*libbpfgo.BPFProg{}}
	if err := p.load(c); err != nil {
		m.Close()
		return nil, fmt.Errorf("loading workload.bpf.o: %w", err)
	}
	return p, nil
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

func (p *Programs) load(c Config) (err error) {
	if p.CPUs, err = libbpfgo.NumPossibleCPUs(); err != nil {
		return err
	}
	all := p.Module.Iterator()
	for m := all.NextMap(); m != nil; m = all.NextMap() {
		p.maps[m.Name()] = m
	}
	for prog := all.NextProgram(); prog != nil; prog = all.NextProgram() {
		p.programs[prog.Name()] = prog
	}
	if err := p.chooseMaps(c); err != nil {
		return err
	}
	for _, name := range append([]string{"run", "bare", "control"}, c.Programs...) {
		if p.programs[name] == nil {
			return fmt.Errorf("there is no program %q", name)
		}
		if err := p.programs[name].SetAutoload(true); err != nil {
			return err
		}
	}
	if c.Syscall != 0 {
		if err := p.Module.InitGlobalVariable("syscall_number", c.Syscall); err != nil {
			return err
		}
	}
	if c.BootTime {
		if err := p.Module.InitGlobalVariable("boot_time", uint8(1)); err != nil {
			return err
		}
	}
	if err := p.Module.BPFLoadObject(); err != nil {
		return err
	}
	if err := p.SetPattern(Pattern); err != nil {
		return err
	}
	return p.begin()
}

func (p *Programs) chooseMaps(c Config) error {
	if len(c.Maps) == 0 {
		c.Maps = []Map{Events}
	}
	mask := uint32(0)
	for m := range maps {
		if slices.Contains(c.Maps, m) {
			mask |= 1 << m
		} else if err := p.maps[m.String()].SetAutocreate(false); err != nil {
			return err
		}
	}
	if c.Lanes {
		mask |= 1 << Lane0
	} else if !slices.Contains(c.Programs, "laned") {
		if err := p.maps["lanes"].SetAutocreate(false); err != nil {
			return err
		}
	}
	for name, by := range map[string]uint32{"shared_lanes": 1 << Shared, "shards_lanes": 1<<Shards | 1<<Groups} {
		if mask&by == 0 {
			if err := p.maps[name].SetAutocreate(false); err != nil {
				return err
			}
		}
	}
	for name, entries := range map[string]int{
		"events": c.Entries, "shared": c.Bytes, "shards": c.Shards, "groups": c.Shards, "patterns": p.CPUs,
	} {
		if entries > 0 {
			if err := p.maps[name].SetMaxEntries(uint32(entries)); err != nil {
				return err
			}
		}
	}
	return p.Module.InitGlobalVariable("maps", mask)
}

// quiet keeps libbpf's messages below warnings to itself.
var quiet = sync.OnceFunc(func() { libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: PrintWarning}) })

// PrintWarning is libbpfgo's logger from Load on.
func PrintWarning(level int, msg string) {
	if level <= libbpfgo.LibbpfWarnLevel {
		fmt.Fprint(os.Stderr, msg)
	}
}

// Words of struct cpu before its slots, and of a slot.
const (
	cpuWords  = 3
	slotWords = countWords + places + (maxTraced+7)/8
	cpuSize   = 8 * (cpuWords + Levels*slotWords)
)

// SetPattern sets the words that test runs' payloads are made of. Check knows those of Pattern,
// which Load sets.
func (p *Programs) SetPattern(word func(i int) uint64) error {
	var words []byte
	for i := range places + MaxSize/8 {
		words = binary.NativeEndian.AppendUint64(words, word(i))
	}
	for cpu := range uint32(p.CPUs) {
		if err := p.maps["patterns"].Update(unsafe.Pointer(&cpu), unsafe.Pointer(&words[0])); err != nil {
			return fmt.Errorf("setting the pattern: %w", err)
		}
	}
	return nil
}

// begin sets the words of other programs' payloads, and all counts to 0.
func (p *Programs) begin() error {
	all := make([]byte, p.CPUs*cpuSize)
	for cpu := range p.CPUs {
		for level := range Levels {
			at := cpu*cpuSize + 8*(cpuWords+level*slotWords+countWords)
			copy(all[at:at+8*(slotWords-countWords)], pattern)
		}
	}
	key := uint32(0)
	if err := p.maps["cpus"].Update(unsafe.Pointer(&key), unsafe.Pointer(&all[0])); err != nil {
		return fmt.Errorf("setting the pattern: %w", err)
	}
	return nil
}

// Close unloads the programs, and detaches them if need be.
func (p *Programs) Close() { p.Module.Close() }

// FD is a map's.
func (p *Programs) FD(m Map) int { return p.MapFD(m.String()) }

// MapFD is that of a map by its name, such as array, a map of another type.
func (p *Programs) MapFD(name string) int { return p.maps[name].FileDescriptor() }

// LanesFD is the map in which a map's programs count; of Events, those of Lane, and outputs to
// Lane0 and Lane1.
func (p *Programs) LanesFD(m Map) int {
	return p.MapFD(map[Map]string{Events: "lanes", Shared: "shared_lanes", Shards: "shards_lanes", Groups: "shards_lanes"}[m])
}

// Lane has the program laned output on a CPU: first so many events in lane 1, then others in lane
// 0, at most 512 each, or those without lanes. It returns how long that took.
func (p *Programs) Lane(cpu, important, others int, plain bool) (time.Duration, error) {
	args := make([]byte, 24)
	binary.NativeEndian.PutUint64(args, uint64(others))
	binary.NativeEndian.PutUint64(args[8:], uint64(important))
	if plain {
		args[16] = 1
	}
	ns, err := bpf.ProgTestRun(p.ProgFD("laned"), nil, args, cpu)
	return time.Duration(ns), err
}

// LaneCount returns how many outputs of Lane were attempted in a lane, on all CPUs, and how many of
// these were written, in the ring for any reader.
func (p *Programs) LaneCount(lane int) (attempted, written uint64, err error) {
	for cpu := range uint32(p.CPUs) {
		value, err := p.maps["lanes"].GetValue(unsafe.Pointer(&cpu))
		if err != nil {
			return 0, 0, fmt.Errorf("reading lanes: %w", err)
		}
		at := func(word int) uint64 { return binary.NativeEndian.Uint64(value[64+128*lane+8*word:]) }
		done := uint64(uint32(at(0))) // struct perfbuf_lane of bpf/perfbuf_lanes.h
		written, attempted = written+done, attempted+done+at(1)+at(5)
		for failure := range 7 {
			attempted += at(9 + failure)
		}
	}
	return attempted, written, nil
}

// ProgFD is a program's.
func (p *Programs) ProgFD(name string) int { return p.programs[name].FileDescriptor() }

// File opens a map anew, by its id: the kernel takes perf events out of a map when the file closes
// by which they were put there. The caller closes it. That takes CAP_SYS_ADMIN.
func (p *Programs) File(m Map) (*os.File, error) {
	info, err := libbpfgo.GetMapInfoByFD(p.FD(m))
	if err != nil {
		return nil, err
	}
	fd, err := libbpfgo.GetMapFDByID(info.ID)
	if err != nil {
		return nil, fmt.Errorf("opening a map by its id: %w", err)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), m.String()), nil
}

// Overwrite is BPF_F_RB_OVERWRITE of include/uapi/linux/bpf.h: Linux 6.19.
const Overwrite = 1 << 19

// NewRingBuf creates a ring buffer, with the flags of a map. The caller closes it.
func NewRingBuf(bytes int, flags uint32) (fd int, err error) {
	m, err := libbpfgo.CreateMap(libbpfgo.MapTypeRingbuf, "shard", 0, 0, bytes, &libbpfgo.BPFMapCreateOpts{MapFlags: flags})
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
	return p.maps[m.String()].Update(at, unsafe.Pointer(&value))
}

// FillShards stores a ring buffer of so many bytes for each possible CPU.
func (p *Programs) FillShards(bytes int) error {
	for cpu := range p.CPUs {
		fd, err := NewRingBuf(bytes, 0)
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

// Counts returns the programs' counts so far, by CPU. Running programs may have counted an attempt,
// but not yet its outcome.
func (p *Programs) Counts() ([]CPUCounts, error) {
	key := uint32(0)
	b, err := p.maps["cpus"].GetValue(unsafe.Pointer(&key))
	if err != nil {
		return nil, fmt.Errorf("reading the programs' counts: %w", err)
	}
	all := make([]CPUCounts, len(b)/cpuSize)
	for cpu := range all {
		word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[cpu*cpuSize+8*i:]) }
		c := &all[cpu]
		c.Deep, c.Ns = word(1), word(2)
		for level := range c.Levels {
			for i := range countWords {
				c.Levels[level].words()[i] = word(cpuWords + level*slotWords + i)
			}
		}
	}
	return all, nil
}

// Sums is Counts with the levels added up.
func (p *Programs) Sums() ([]Counts, error) {
	all, err := p.Counts()
	sums := make([]Counts, len(all))
	for cpu := range all {
		sums[cpu] = all[cpu].Sum()
	}
	return sums, err
}
