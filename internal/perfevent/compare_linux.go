package perfevent

import (
	"encoding/binary"
	"sync"

	libbpf "github.com/ringfold/ringfold/cgo"
	"golang.org/x/sys/unix"
)

// CompareProgram is the name of the program by which a reader looks at its entries of a map. It outputs
// nothing.
const CompareProgram = "ringfold_same"

// layout is where the kernel has an entry (struct bpf_array) and its perf event (struct bpf_event_entry): offsets, in bytes.
var layout = sync.OnceValues(func() ([]int, error) {
	return libbpf.KernelMembers([2]string{"bpf_array", "ptrs"}, [2]string{"bpf_event_entry", "event"})
})

// content is what the program of loadCompare finds in an entry.
type content uint32

const (
	ours    content = iota // the perf event that the first map has there
	others                 // another one
	emptied                // none, and the first map has one
	unknown                // the first map has none, or the kernel's memory cannot be read
)

// loadCompare loads a program that returns what the second map's entry is, compared with the first
// one's. Its context is the entry's index. It reads the kernel's memory, within an RCU read section, as
// entries are freed after a grace period (bpf_event_entry_free_rcu in kernel/bpf/arraymap.c). That takes
// BTF, test runs of such programs (Linux 5.10), and no lockdown for confidentiality.
func loadCompare(first, second int) (int, error) {
	at, err := layout()
	if err != nil {
		return -1, err
	}
	const (
		pseudoMapFD         = 1       // BPF_PSEUDO_MAP_FD
		callProbeReadKernel = 113     // BPF_FUNC_probe_read_kernel
		word, address       = -8, -16 // on the stack

		move, add   = unix.BPF_ALU64 | unix.BPF_MOV, unix.BPF_ALU64 | unix.BPF_ADD
		load, store = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_DW, unix.BPF_STX | unix.BPF_MEM | unix.BPF_DW
		equal       = unix.BPF_JMP | unix.BPF_JEQ
		unequal     = unix.BPF_JMP | unix.BPF_JNE
		x           = unix.BPF_X
	)
	var code []libbpf.Insn
	var leave [unknown + 1][]int // jumps to where it returns that
	put := func(insns ...libbpf.Insn) { code = append(code, insns...) }
	leaveIf := func(i libbpf.Insn, is content) { leave[is] = append(leave[is], len(code)); put(i) }
	read := func() { // the word at the address in register 3 into register 3
		put(libbpf.Insn{Code: move | x, Dst: 1, Src: 10}, libbpf.Insn{Code: add, Dst: 1, Imm: word},
			libbpf.Insn{Code: move, Dst: 2, Imm: 8},
			libbpf.Insn{Code: unix.BPF_JMP | unix.BPF_CALL, Imm: callProbeReadKernel})
		leaveIf(libbpf.Insn{Code: unequal}, unknown)
		put(libbpf.Insn{Code: load, Dst: 3, Src: 10, Off: word})
	}
	event := func(mapFD int, without content) { // that a map has, into register 3
		put(libbpf.Insn{Code: unix.BPF_LD | unix.BPF_IMM | unix.BPF_DW, Dst: 1, Src: pseudoMapFD, Imm: int32(mapFD)}, libbpf.Insn{},
			libbpf.Insn{Code: store, Dst: 10, Src: 1, Off: address}, // the verifier allows sums with what was read, not with a map
			libbpf.Insn{Code: move | x, Dst: 3, Src: 10}, libbpf.Insn{Code: add, Dst: 3, Imm: address})
		read()
		put(libbpf.Insn{Code: add | x, Dst: 3, Src: 6}, libbpf.Insn{Code: add, Dst: 3, Imm: int32(at[0])})
		read()
		leaveIf(libbpf.Insn{Code: equal, Dst: 3}, without)
		put(libbpf.Insn{Code: add, Dst: 3, Imm: int32(at[1])})
		read()
	}
	put(libbpf.Insn{Code: load, Dst: 6, Src: 1}, libbpf.Insn{Code: unix.BPF_ALU64 | unix.BPF_LSH, Dst: 6, Imm: 3})
	event(first, unknown)
	put(libbpf.Insn{Code: move | x, Dst: 7, Src: 3})
	event(second, emptied)
	leaveIf(libbpf.Insn{Code: equal | x, Dst: 3, Src: 7}, ours)
	for is := others; ; is = (is + 1) % content(len(leave)) { // ours comes last
		for _, i := range leave[is] {
			code[i].Off = int16(len(code) - i - 1)
		}
		put(libbpf.Insn{Code: move, Imm: int32(is)}, libbpf.Insn{Code: unix.BPF_JMP | unix.BPF_EXIT})
		if is == ours {
			return libbpf.ProgLoad(libbpf.ProgTypeRawTracepoint, CompareProgram, "Dual BSD/GPL", code)
		}
	}
}

// runCompare runs that program.
func runCompare(program, cpu int) (content, error) {
	is, err := libbpf.ProgTestRun(program, nil, binary.NativeEndian.AppendUint64(nil, uint64(cpu)), -1)
	return content(is), err
}
