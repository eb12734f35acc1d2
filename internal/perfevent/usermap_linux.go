package perfevent

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/host"
	"golang.org/x/sys/unix"
)

// userMap is the user's map, and what a reader has in it.
//
// Another reader, of any library, may store its perf events over this one's at any time. They are to stay: so this one
// looks at an entry of its own before it changes it. User space cannot (perf_event_fd_array_map_lookup), but a program can.
type userMap struct {
	host.Map
	fd      int // a duplicate of the user's descriptor
	own     int // a map of ours, with the same perf events, that no program outputs to
	compare int // the program that compares the two: see loadCompare; -1: it cannot be had, and nothing is looked at
}

// place is an entry of the map.
type place struct {
	cpu  int
	held bool // the reader has stored a perf event there, and not emptied it since
}

// openUserMap makes the reader's own map. fd and info are what host.DupMap returns, and stay the caller's.
func openUserMap(fd int, info host.Map) (*userMap, error) {
	own, err := libbpf.MapCreate(libbpf.MapTypePerfEventArray, "ringfold", 4, 4, info.MaxEntries, 0)
	if err != nil {
		return nil, fmt.Errorf("a map of the reader's own: %w", err)
	}
	compare, err := loadCompare(own, fd)
	if err != nil {
		compare = -1
	}
	return &userMap{Map: info, fd: fd, own: own, compare: compare}, nil
}

// close lets go of all but the user's map.
func (m *userMap) close() {
	unix.Close(m.own)
	if m.compare >= 0 {
		unix.Close(m.compare)
	}
}

// take stores a reader's first perf event in an entry. It reports whether somebody else had one there: deleting an entry says so.
func (m *userMap) take(p *place, event int) (displaced bool, err error) {
	displaced = libbpf.MapDelete(m.fd, uint32(p.cpu)) == nil
	return displaced, m.set(p, event)
}

// set stores a perf event in an entry. If the entry is held, and another reader has taken it since, it stays that one's.
func (m *userMap) set(p *place, event int) error {
	if m.taken(p) {
		return nil
	}
	if err := libbpf.MapUpdate(m.fd, uint32(p.cpu), uint32(event)); err != nil { // the entry is what it was
		return fmt.Errorf("the map's entry of CPU %d: %w", p.cpu, err)
	}
	p.held = true
	if libbpf.MapUpdate(m.own, uint32(p.cpu), uint32(event)) != nil {
		libbpf.MapDelete(m.own, uint32(p.cpu)) // there is nothing to compare with then
	}
	return nil
}

// empty empties an entry that is held, unless another reader has taken it since.
func (m *userMap) empty(p *place) error {
	if p.held && !m.taken(p) {
		if err := libbpf.MapDelete(m.fd, uint32(p.cpu)); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("the map's entry of CPU %d: %w", p.cpu, err)
		}
	}
	p.held = false
	return nil
}

// taken reports whether another reader has taken an entry that is held, as far as can be seen: not on a CPU that is offline, nor before Linux
// 5.10, nor without the privileges of Open. It interrupts the CPU. Who takes the entry between this and the change that follows loses it: the
// kernel has no call for both, and these are microseconds.
func (m *userMap) taken(p *place) bool {
	if !p.held || m.compare < 0 {
		return false
	}
	other, err := libbpf.ProgTestRun(m.compare, nil, nil, p.cpu)
	return err == nil && other != 0
}

// loadCompare loads a program that returns 1 if the second map has a perf event for the CPU that it runs on, and the first one has not the
// same. By bpf_perf_event_read_value (perf_event_read_local in kernel/events/core.c) it sees for how long an event has been enabled. That
// tells events of a CPU apart, which enables one after the other, in an interrupt each: if it is the same event, the time in the second map
// lies between two readings of the first.
func loadCompare(first, second int) (int, error) {
	const (
		pseudoMapFD            = 1                               // BPF_PSEUDO_MAP_FD
		callPerfEventReadValue = 55                              // BPF_FUNC_perf_event_read_value
		size                   = 24                              // of struct bpf_perf_event_value
		enabled                = 8                               // where it has that time
		before, there, after   = -1 * size, -2 * size, -3 * size // the readings, on the stack

		same, other = 30, 32 // instructions to jump to
		move        = unix.BPF_ALU64 | unix.BPF_MOV
		load        = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_DW
		unequal     = unix.BPF_JMP | unix.BPF_JNE
		greater     = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_X
	)
	read := func(mapFD int, into int32) []libbpf.Insn { // 7 instructions
		return []libbpf.Insn{
			{Code: unix.BPF_LD | unix.BPF_IMM | unix.BPF_DW, Dst: 1, Src: pseudoMapFD, Imm: int32(mapFD)},
			{},
			{Code: unix.BPF_ALU | unix.BPF_MOV, Dst: 2, Imm: -1}, // BPF_F_CURRENT_CPU
			{Code: move | unix.BPF_X, Dst: 3, Src: 10},
			{Code: unix.BPF_ALU64 | unix.BPF_ADD, Dst: 3, Imm: into},
			{Code: move, Dst: 4, Imm: size},
			{Code: unix.BPF_JMP | unix.BPF_CALL, Imm: callPerfEventReadValue},
		}
	}
	return libbpf.ProgLoad(libbpf.ProgTypeRawTracepoint, "ringfold_same", "Dual BSD/GPL", slices.Concat(
		read(first, before),
		[]libbpf.Insn{{Code: unequal, Off: same - 8}}, // 7: nothing to compare with
		read(second, there),
		[]libbpf.Insn{
			{Code: unix.BPF_JMP | unix.BPF_JEQ, Imm: -int32(syscall.ENOENT), Off: same - 16}, // 15
			{Code: unequal, Off: other - 17},                                                 // 16: not an event of this CPU
		},
		read(first, after),
		[]libbpf.Insn{
			{Code: unequal, Off: same - 25},                      // 24
			{Code: load, Dst: 1, Src: 10, Off: before + enabled}, // 25
			{Code: load, Dst: 2, Src: 10, Off: there + enabled},  // 26
			{Code: load, Dst: 3, Src: 10, Off: after + enabled},  // 27
			{Code: greater, Dst: 1, Src: 2, Off: other - 29},     // 28
			{Code: greater, Dst: 2, Src: 3, Off: other - 30},     // 29
			{Code: move}, {Code: unix.BPF_JMP | unix.BPF_EXIT}, // 30: same
			{Code: move, Imm: 1}, {Code: unix.BPF_JMP | unix.BPF_EXIT}, // 32: other
		},
	))
}
