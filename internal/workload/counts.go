package workload

import (
	"fmt"
	"unsafe"
)

// Source is the trigger of a program run.
type Source int

// The sources of workload.bpf.c.
const (
	Syscall Source = 1 + iota
	Switch
	Wakeup
	Softirq
	Timer
	Hrtimer
	Burst // a test run that outputs like the sources above
	Run   // BPF_PROG_TEST_RUN
	Tick  // a timer's interrupt: Programs.Tick
	Copy  // as Run, with a time that the output took
	sources
)

// Traced are the sources that Programs.Attach knows.
var Traced = []Source{Syscall, Switch, Wakeup, Softirq, Timer, Hrtimer}

func (s Source) String() string {
	return [...]string{"", "syscall", "switch", "wakeup", "softirq", "timer", "hrtimer", "burst", "run", "tick", "copy"}[s]
}

// Map is one of the maps of workload.bpf.c.
type Map int

// The maps. In the array of shards, CPUs have ring buffers of their own, in the hash of groups two
// of them share one.
const (
	Events Map = iota
	More       // another perf event array
	Shared
	Shards
	Groups
	maps

	Spread = maps // number n goes to map n mod 4

	// The lanes of Events, if Config.Lanes is set: Lane1 is for what must not be shed.
	Lane0 = maps + 1
	Lane1 = maps + 2
)

func (m Map) String() string {
	return [...]string{"events", "more", "shared", "shards", "groups"}[m]
}

// IsRingBuf says which are BPF ring buffers, or have them.
func (m Map) IsRingBuf() bool { return m >= Shared }

// Levels is how many programs may interrupt each other on a CPU.
const Levels = 8

// Counts is what became of outputs, as the programs count them: the beginning of struct slot.
type Counts struct {
	Attempted, Written uint64
	Full               uint64 // ENOSPC, or EAGAIN of a ring buffer
	Busy               uint64 // EBUSY
	NoRing             uint64 // ENOENT, or E2BIG
	Off                uint64 // EOPNOTSUPP: the ring's perf event was off
	Other              uint64
	Shed               uint64          // ECANCELED
	Discarded          uint64          // of those written: records that were given up
	Last               uint64          // number of the latest that was written, and one
	Error              int64           // result of the last output: 0, or an errno below 0
	Strange            int64           // result of the last of Other
	To                 [8]MapCounts    // by Map
	Sources            [sources]uint64 // attempted by each
}

// MapCounts is Counts of one map, or of one lane.
type MapCounts struct{ Written, Full, Shed uint64 }

const countWords = int(unsafe.Sizeof(Counts{}) / 8)

// words are its fields. All of these have 64 bits.
func (c *Counts) words() *[countWords]uint64 { return (*[countWords]uint64)(unsafe.Pointer(c)) }

// Uncounted are the outputs that the kernel refused without counting them as lost.
func (c *Counts) Uncounted() uint64 { return c.Busy + c.NoRing + c.Off + c.Other }

// Refused are all of these, those that found no room, and those that were shed.
func (c *Counts) Refused() uint64 { return c.Full + c.Shed + c.Uncounted() }

// Add adds the counts of o. Last, Error and Strange become o's if o has any.
func (c *Counts) Add(o *Counts) {
	last, err, strange := c.Last, c.Error, c.Strange
	for i, n := range o.words() {
		c.words()[i] += n
	}
	c.Last, c.Error, c.Strange = max(last, o.Last), err, strange
	if o.Error != 0 {
		c.Error = o.Error
	}
	if o.Strange != 0 {
		c.Strange = o.Strange
	}
}

// Since returns the counts since before. Last, Error and Strange are current.
func (c Counts) Since(before Counts) Counts {
	last, err, strange := c.Last, c.Error, c.Strange
	for i, n := range before.words() {
		c.words()[i] -= n
	}
	c.Last, c.Error, c.Strange = last, err, strange
	return c
}

// CPUCounts holds the programs' counts on one CPU.
type CPUCounts struct {
	Deep   uint64 // runs that found no slot, and output nothing
	Ns     uint64 // time that test runs took
	Levels [Levels]Counts
}

// Since returns the counts since before.
func (c *CPUCounts) Since(before *CPUCounts) (d CPUCounts) {
	d.Deep, d.Ns = c.Deep-before.Deep, c.Ns-before.Ns
	for i := range d.Levels {
		d.Levels[i] = c.Levels[i].Since(before.Levels[i])
	}
	return d
}

// Sum adds up the levels.
func (c *CPUCounts) Sum() (s Counts) {
	for i := range c.Levels {
		s.Add(&c.Levels[i])
	}
	return s
}

// To is what went to one map.
func (c *CPUCounts) To(m Map) (s MapCounts) {
	for i := range c.Levels {
		s.Written += c.Levels[i].To[m].Written
		s.Full += c.Levels[i].To[m].Full
		s.Shed += c.Levels[i].To[m].Shed
	}
	return s
}

// Agree compares the programs' counts with each other, when none of them runs. It returns the
// contradictions.
func Agree(seen []CPUCounts) (wrong []string) {
	for cpu := range seen {
		for level, c := range seen[cpu].Levels {
			if sum := c.Written + c.Refused(); c.Attempted != sum {
				wrong = append(wrong, fmt.Sprintf("CPU %d level %d: the programs do not agree with themselves, by %+d: %+v",
					cpu, level, int64(sum-c.Attempted), c))
			}
		}
	}
	return wrong
}
