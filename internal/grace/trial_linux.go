package grace

import (
	"fmt"
	"runtime"
	"time"

	"github.com/ringfold/ringfold/internal/bpf"
	"golang.org/x/sys/unix"
)

// trial is a BPF program that runs for a given time and counts its begins and ends.
type trial struct {
	prog, counts, bulk int // descriptors
	runs               uint64
}

// Entries of a trial's counts.
const (
	begun  = iota // runs that have begun
	over          // runs that have ended
	length        // of a run, in ns
	entries
)

// chunk is how much the program copies between two looks at the clock, and chunks is the most
// copies. A verifier follows every turn of a loop, so few turns must take long.
const chunk, chunks = 512 << 10, 256

func newTrial() (_ *trial, err error) {
	t := &trial{prog: -1, counts: -1, bulk: -1}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if t.counts, err = bpf.MapCreate(bpf.MapTypeArray, "ringfold_counts", 4, 8, entries, 0); err != nil {
		return nil, err
	}
	if t.bulk, err = bpf.MapCreate(bpf.MapTypeArray, "ringfold_bulk", 4, chunk, 2, 0); err != nil {
		return nil, err
	}
	// A socket filter runs in an RCU read-side section with interrupts on, and takes CAP_BPF alone.
	t.prog, err = bpf.ProgLoad(bpf.ProgTypeSocketFilter, "ringfold_trial", "Dual BSD/GPL", trialCode(t.counts, t.bulk))
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *trial) close() {
	for _, fd := range []int{t.prog, t.counts, t.bulk} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// An outcome is the state, after a wait, of a program that was running when the wait began.
type outcome int

const (
	unseen  outcome = iota // none was under way
	running                // still, when the wait returned
	ended
)

// round starts the program, calls wait while it is running, and returns the outcome. It blocks
// until the program has ended.
func (t *trial) round(wait func() error, d time.Duration) (o outcome, err error) {
	if err := bpf.MapSet(t.counts, length, uint64(d)); err != nil {
		return unseen, err
	}
	t.runs++
	run := startRun(t.prog, runPacket)
	defer func() {
		if failed := run.join(); failed != nil && err == nil {
			o, err = unseen, fmt.Errorf("running a program: %w", failed)
		}
	}()
	for tries := 0; ; tries++ {
		n, err := t.count(begun)
		if err != nil {
			return unseen, err
		}
		if n == t.runs || run.ended() {
			break
		}
		if tries > 1000 {
			time.Sleep(20 * time.Microsecond) // the program may need this CPU
		} else {
			runtime.Gosched()
		}
	}
	if n, err := t.count(over); err != nil || n == t.runs {
		return unseen, err
	}
	if err := wait(); err != nil {
		return unseen, err
	}
	// The program's last store precedes the end of its section. A wait for that end orders the
	// store before this load.
	n, err := t.count(over)
	if err != nil || n < t.runs {
		return running, err
	}
	return ended, nil
}

func (t *trial) count(entry uint32) (uint64, error) {
	var n [1]uint64
	err := bpf.MapLookup(t.counts, entry, n[:])
	return n[0], err
}

// trialCode is, in C:
//
//	u64 *b = lookup(counts, begun), *o = lookup(counts, over), *l = lookup(counts, length);
//	void *c = lookup(bulk, 0);
//	u64 d = *l;
//
//	__sync_fetch_and_add(b, 1);
//	u64 start = ktime_get_ns();
//	for (u64 i = 0; i < chunks; i++) {
//		update(bulk, 1, c, BPF_ANY);
//		if (ktime_get_ns() - start > d)
//			break;
//	}
//	__sync_fetch_and_add(o, 1);
func trialCode(counts, bulk int) []bpf.Insn {
	const (
		lookup, update, now = 1, 2, 5 // of enum bpf_func_id
		fp                  = 10
		mov, add, sub       = unix.BPF_ALU64 | 0xb0, unix.BPF_ALU64 | unix.BPF_ADD, unix.BPF_ALU64 | unix.BPF_SUB
		x                   = unix.BPF_X
		dw                  = 0x18
		atomic              = 0xc0
	)
	var code []bpf.Insn
	put := func(insns ...bpf.Insn) { code = append(code, insns...) }
	var toExit []int
	mapFD := func(fd int) {
		put(bpf.Insn{Code: unix.BPF_LD | dw | unix.BPF_IMM, Dst: 1, Src: 1, Imm: int32(fd)}, bpf.Insn{}) // BPF_PSEUDO_MAP_FD
	}
	key := func(k int32) { // r2 = &k, at fp-4
		put(bpf.Insn{Code: unix.BPF_ST | unix.BPF_W | unix.BPF_MEM, Dst: fp, Off: -4, Imm: k},
			bpf.Insn{Code: mov | x, Dst: 2, Src: fp}, bpf.Insn{Code: add, Dst: 2, Imm: -4})
	}
	call := func(f int32) { put(bpf.Insn{Code: unix.BPF_JMP | 0x80, Imm: f}) }
	value := func(reg uint8, fd int, k int32) { // reg = lookup(fd, k)
		mapFD(fd)
		key(k)
		call(lookup)
		toExit = append(toExit, len(code))
		put(bpf.Insn{Code: unix.BPF_JMP | unix.BPF_JEQ, Dst: 0}, bpf.Insn{Code: mov | x, Dst: reg, Src: 0})
	}
	count := func(reg uint8) { // *reg += 1
		put(bpf.Insn{Code: mov, Dst: 1, Imm: 1}, bpf.Insn{Code: unix.BPF_STX | dw | atomic, Dst: reg, Src: 1})
	}

	value(6, counts, length)
	put(bpf.Insn{Code: unix.BPF_LDX | dw | unix.BPF_MEM, Dst: 1, Src: 6},
		bpf.Insn{Code: unix.BPF_STX | dw | unix.BPF_MEM, Dst: fp, Src: 1, Off: -16}) // d
	value(6, counts, begun)
	value(7, counts, over)
	value(8, bulk, 0)
	count(6)
	call(now)
	put(bpf.Insn{Code: mov | x, Dst: 9, Src: 0}, bpf.Insn{Code: mov, Dst: 6}) // start, i
	loop := len(code)
	mapFD(bulk)
	key(1)
	put(bpf.Insn{Code: mov | x, Dst: 3, Src: 8}, bpf.Insn{Code: mov, Dst: 4})
	call(update)
	call(now)
	put(bpf.Insn{Code: sub | x, Dst: 0, Src: 9},
		bpf.Insn{Code: unix.BPF_LDX | dw | unix.BPF_MEM, Dst: 1, Src: fp, Off: -16},
		bpf.Insn{Code: unix.BPF_JMP | unix.BPF_JGT | x, Dst: 0, Src: 1, Off: 2},
		bpf.Insn{Code: add, Dst: 6, Imm: 1})
	put(bpf.Insn{Code: unix.BPF_JMP | 0xa0, Dst: 6, Imm: chunks, Off: int16(loop - len(code) - 1)}) // BPF_JLT
	count(7)
	for _, i := range toExit {
		code[i].Off = int16(len(code) - i - 1)
	}
	put(bpf.Insn{Code: mov}, bpf.Insn{Code: unix.BPF_JMP | unix.BPF_EXIT})
	return code
}
