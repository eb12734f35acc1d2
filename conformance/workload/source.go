// Package workload makes maps, and has BPF programs output events to them that can be accounted for: how many, on which CPU, how
// large, and what became of each output.
package workload

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

//go:embed output.bpf.o
var object []byte

// Of output.bpf.c.
const (
	MaxSize  = 1 << 17 // bytes of a payload
	maxCount = 512     // of one run
	words    = 512
	loadSize = 64
)

// Lane tells apart programs that interrupt each other on a CPU: each numbers its events by itself.
type Lane int

// The lanes of output.bpf.c.
const (
	Run     Lane = iota // test runs: Source.Output
	Syscall             // at the entry of system calls: Load
	Timer               // from a timer's interrupt: Source.Ticks
	Lanes
)

// Source is a map and the programs that output to it.
type Source struct {
	Kind string // "perf" or "ringbuf"
	CPUs int    // possible ones
	maps *ebpf.Collection
}

// Config says what map a Source is to have.
type Config struct {
	Kind    string // "perf" or "ringbuf"
	Entries int    // max_entries of a perf event array; 0: one for each possible CPU
	Bytes   int    // size of a ring buffer
}

// pattern is what payloads consist of behind their header.
func pattern(i int) uint64 { return uint64(i+1) * 0x9E3779B97F4A7C15 }

// New loads the programs and makes the map.
func New(c Config) (*Source, error) {
	if err := rlimit.RemoveMemlock(); err != nil { // before Linux 5.11, maps count as locked memory
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	if c.Entries == 0 {
		c.Entries = cpus
	}
	spec.Maps["events"].MaxEntries = uint32(c.Entries)
	spec.Maps["patterns"].MaxEntries = uint32(cpus)
	if c.Bytes != 0 {
		spec.Maps["ringbuf"].MaxEntries = uint32(c.Bytes)
	}
	if err := spec.Variables["syscall_number"].Set(uint64(syscallNumber)); err != nil {
		return nil, err
	}
	s := &Source{Kind: c.Kind, CPUs: cpus}
	if s.maps, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("loading BPF programs, which takes root or CAP_BPF and CAP_PERFMON: %w", err)
	}
	return s, s.setPattern()
}

func (s *Source) setPattern() error {
	var all []uint64
	for i := range words + MaxSize/8 {
		all = append(all, pattern(i))
	}
	value := make([]byte, 0, 8*len(all))
	for _, w := range all {
		value = binary.NativeEndian.AppendUint64(value, w)
	}
	for cpu := range s.CPUs {
		if err := s.maps.Maps["patterns"].Put(uint32(cpu), value); err != nil {
			return err
		}
	}
	return nil
}

// File opens the map anew, as the kernel takes a reader's events out of a map when the file closes by which they were put there. The
// caller closes it.
func (s *Source) File() (*os.File, error) {
	name := map[string]string{"perf": "events", "ringbuf": "ringbuf"}[s.Kind]
	info, err := s.maps.Maps[name].Info()
	if err != nil {
		return nil, err
	}
	id, _ := info.ID()
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return nil, fmt.Errorf("opening a map by its id, which takes CAP_SYS_ADMIN: %w", err)
	}
	defer m.Close()
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	return os.NewFile(uintptr(fd), name), err
}

// Close unloads the programs.
func (s *Source) Close() { s.maps.Close() }

// Output outputs count events of size bytes on a CPU, one right after the other, and returns when they are in the ring or refused. No
// interrupt comes between an output's clock and its record. It may be called for different CPUs at the same time.
func (s *Source) Output(cpu, count, size int) error {
	program := s.maps.Programs["run_"+s.Kind]
	for ; count > 0; count -= maxCount {
		args := []uint64{uint64(min(count, maxCount)), uint64(size)}
		ret, err := program.Run(&ebpf.RunOptions{Context: args, Flags: 1, CPU: uint32(cpu)}) // BPF_F_TEST_RUN_ON_CPU
		if err == nil && ret != 0 {
			err = fmt.Errorf("the program returned %d", int32(ret))
		}
		if err != nil {
			return fmt.Errorf("output of %d bytes on CPU %d: %w", size, cpu, err)
		}
	}
	return nil
}

// Counts is what became of outputs. The rest of Attempted was taken.
type Counts struct {
	Attempted uint64
	NoSpace   uint64 // refused, as the ring was full
	NoEntry   uint64 // refused, as the map had no ring for that CPU
	Failed    uint64 // refused for another reason
	Error     int64  // of the last that was refused, negative
}

// Taken is how many outputs are in a ring, or were.
func (c Counts) Taken() uint64 { return c.Attempted - c.NoSpace - c.NoEntry - c.Failed }

// Add adds another's counts.
func (c *Counts) Add(d Counts) {
	c.Attempted += d.Attempted
	c.NoSpace += d.NoSpace
	c.NoEntry += d.NoEntry
	c.Failed += d.Failed
}

// Counts returns those of all possible CPUs, by lane.
func (s *Source) Counts() (of [Lanes][]Counts, err error) {
	for lane := range Lanes {
		if err := s.maps.Maps["counts"].Lookup(uint32(lane), &of[lane]); err != nil {
			return of, err
		}
	}
	return of, nil
}

// Total sums up the lanes of each CPU.
func (s *Source) Total() ([]Counts, error) {
	of, err := s.Counts()
	total := make([]Counts, s.CPUs)
	for _, lane := range of {
		for cpu, c := range lane {
			total[cpu].Add(c)
		}
	}
	return total, err
}
