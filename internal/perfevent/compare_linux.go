package perfevent

import (
	"encoding/binary"
	"sync"

	"github.com/ringfold/ringfold/internal/bpf"
	"golang.org/x/sys/unix"
)

// CompareProgram is the name of the program with which a reader inspects its entries of a map. It
// outputs nothing.
const CompareProgram = "ringfold_same"

// layout holds byte offsets: of the entries in struct bpf_array, and of the perf event in struct
// bpf_event_entry.
var layout = sync.OnceValues(func() ([]int, error) {
	return bpf.KernelMembers([2]string{"bpf_array", "ptrs"}, [2]string{"bpf_event_entry", "event"})
})

// content is the result of loadCompare's program for one entry.
type content uint32

const (
	ours    content = iota // the same perf event as in the first map
	others                 // a different perf event
	emptied                // no event, although the first map has one
	unknown                // the first map has no event, or kernel memory is unreadable
)

// loadCompare loads a program that compares the second map's entry with the first one's. Its
// context is the entry's index. It reads kernel memory inside an RCU read section, because the
// kernel frees entries after a grace period (bpf_event_entry_free_rcu in kernel/bpf/arraymap.c). It
// needs BTF, test runs of raw tracepoint programs (Linux 5.10), and no lockdown for
// confidentiality.
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
	var code []bpf.Insn
	var leave [unknown + 1][]int // jumps to the exit for each result
	put := func(insns ...bpf.Insn) { code = append(code, insns...) }
	leaveIf := func(i bpf.Insn, is content) { leave[is] = append(leave[is], len(code)); put(i) }
	read := func() { // replaces the address in register 3 by the word there
		put(bpf.Insn{Code: move | x, Dst: 1, Src: 10}, bpf.Insn{Code: add, Dst: 1, Imm: word},
			bpf.Insn{Code: move, Dst: 2, Imm: 8},
			bpf.Insn{Code: unix.BPF_JMP | unix.BPF_CALL, Imm: callProbeReadKernel})
		leaveIf(bpf.Insn{Code: unequal}, unknown)
		put(bpf.Insn{Code: load, Dst: 3, Src: 10, Off: word})
	}
	event := func(mapFD int, without content) { // loads the map's event into register 3
		put(bpf.Insn{Code: unix.BPF_LD | unix.BPF_IMM | unix.BPF_DW, Dst: 1, Src: pseudoMapFD, Imm: int32(mapFD)}, bpf.Insn{},
			// The verifier forbids arithmetic on a map pointer, so this reads the pointer back.
			bpf.Insn{Code: store, Dst: 10, Src: 1, Off: address},
			bpf.Insn{Code: move | x, Dst: 3, Src: 10}, bpf.Insn{Code: add, Dst: 3, Imm: address})
		read()
		put(bpf.Insn{Code: add | x, Dst: 3, Src: 6}, bpf.Insn{Code: add, Dst: 3, Imm: int32(at[0])})
		read()
		leaveIf(bpf.Insn{Code: equal, Dst: 3}, without)
		put(bpf.Insn{Code: add, Dst: 3, Imm: int32(at[1])})
		read()
	}
	put(bpf.Insn{Code: load, Dst: 6, Src: 1}, bpf.Insn{Code: unix.BPF_ALU64 | unix.BPF_LSH, Dst: 6, Imm: 3})
	event(first, unknown)
	put(bpf.Insn{Code: move | x, Dst: 7, Src: 3})
	event(second, emptied)
	leaveIf(bpf.Insn{Code: equal | x, Dst: 3, Src: 7}, ours)
	for is := others; ; is = (is + 1) % content(len(leave)) { // ours comes last
		for _, i := range leave[is] {
			code[i].Off = int16(len(code) - i - 1)
		}
		put(bpf.Insn{Code: move, Imm: int32(is)}, bpf.Insn{Code: unix.BPF_JMP | unix.BPF_EXIT})
		if is == ours {
			return bpf.ProgLoad(bpf.ProgTypeRawTracepoint, CompareProgram, "Dual BSD/GPL", code)
		}
	}
}

func runCompare(program, cpu int) (content, error) {
	is, err := bpf.ProgTestRun(program, nil, binary.NativeEndian.AppendUint64(nil, uint64(cpu)), -1)
	return content(is), err
}
