package workload

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/ringfold/ringfold/internal/bpf"
)

// Object is workload.bpf.c, for a loader.
//
//go:embed workload.bpf.o
var Object []byte

// Loader has Object in the kernel.
type Loader interface {
	MapFD(name string) int
	ProgFD(name string) int
	Attach(program string) (detach func() error, err error)
	Close() // unloads the programs, and detaches them if need be
}

// Programs are loaded, with maps of their own.
type Programs struct {
	CPUs   int // possible ones
	object Loader
	links  []func() error
}

// Loaded prepares what a loader has loaded, on a machine with so many possible CPUs. The map
// patterns must have an entry for each.
func Loaded(object Loader, cpus int) (*Programs, error) {
	p := &Programs{CPUs: cpus, object: object}
	err := p.SetPattern(Pattern)
	if err == nil {
		err = p.begin()
	}
	if err != nil {
		object.Close()
		return nil, err
	}
	return p, nil
}

// Close unloads the programs, and detaches them if need be.
func (p *Programs) Close() { p.object.Close() }

// Words of struct cpu before its slots, and of a slot.
const (
	ownWords  = 3
	slotWords = countWords + places + (maxTraced+7)/8
	cpuWords  = ownWords + Levels*slotWords
)

// SetPattern sets the words that test runs' payloads are made of. Check knows those of Pattern,
// which Load sets.
func (p *Programs) SetPattern(word func(i int) uint64) error {
	var words []uint64
	for i := range places + MaxSize/8 {
		words = append(words, word(i))
	}
	for cpu := range uint32(p.CPUs) {
		if err := bpf.MapSet(p.MapFD("patterns"), cpu, words...); err != nil {
			return fmt.Errorf("setting the pattern: %w", err)
		}
	}
	return nil
}

// begin sets the words of other programs' payloads, and all counts to 0.
func (p *Programs) begin() error {
	all := make([]uint64, p.CPUs*cpuWords)
	for cpu := range p.CPUs {
		for level := range Levels {
			slot := all[cpu*cpuWords+ownWords+level*slotWords:][:slotWords]
			for i := range slot[countWords:] {
				slot[countWords+i] = Pattern(i)
			}
		}
	}
	if err := bpf.MapSet(p.MapFD("cpus"), 0, all...); err != nil {
		return fmt.Errorf("setting the pattern: %w", err)
	}
	return nil
}

// FD is a map's.
func (p *Programs) FD(m Map) int { return p.MapFD(m.String()) }

// MapFD is that of a map by its name, such as array, a map of another type.
func (p *Programs) MapFD(name string) int { return p.object.MapFD(name) }

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
		value := make([]uint64, (64+128*2)/8)
		if err := bpf.MapLookup(p.MapFD("lanes"), cpu, value); err != nil {
			return 0, 0, fmt.Errorf("reading lanes: %w", err)
		}
		at := func(word int) uint64 { return value[(64+128*lane)/8+word] }
		done := uint64(uint32(at(0))) // struct perfbuf_lane of bpf/perfbuf_lanes.h
		written, attempted = written+done, attempted+done+at(1)+at(5)
		for failure := range 7 {
			attempted += at(9 + failure)
		}
	}
	return attempted, written, nil
}

// ProgFD is a program's.
func (p *Programs) ProgFD(name string) int { return p.object.ProgFD(name) }

// File opens a map anew, by its id: the kernel takes perf events out of a map when the file closes
// by which they were put there. The caller closes it. That takes CAP_SYS_ADMIN.
func (p *Programs) File(m Map) (*os.File, error) {
	info, err := bpf.GetMapInfo(p.FD(m))
	if err != nil {
		return nil, err
	}
	fd, err := bpf.MapByID(info.ID)
	if err != nil {
		return nil, fmt.Errorf("opening a map by its id: %w", err)
	}
	return os.NewFile(uintptr(fd), m.String()), nil
}

// Counts returns the programs' counts so far, by CPU. Running programs may have counted an attempt,
// but not yet its outcome.
func (p *Programs) Counts() ([]CPUCounts, error) {
	values := make([]uint64, p.CPUs*cpuWords)
	if err := bpf.MapLookup(p.MapFD("cpus"), 0, values); err != nil {
		return nil, fmt.Errorf("reading the programs' counts: %w", err)
	}
	all := make([]CPUCounts, p.CPUs)
	for cpu := range all {
		words, c := values[cpu*cpuWords:], &all[cpu]
		c.Deep, c.Ns = words[1], words[2]
		for level := range c.Levels {
			copy(c.Levels[level].words()[:], words[ownWords+level*slotWords:])
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
