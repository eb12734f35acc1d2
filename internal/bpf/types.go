// Package bpf makes the calls of bpf(2) that ringfold needs, one thin function each, and finds
// variables and members in the kernel's BTF. It has no policy.
package bpf

import "syscall"

// Map types with rings to read, or that ringfold creates: enum bpf_map_type.
const (
	MapTypeArray          = 2
	MapTypePerfEventArray = 4
	MapTypeArrayOfMaps    = 12
	MapTypeHashOfMaps     = 13
	MapTypeRingbuf        = 27
)

// FlagOverwrite is BPF_F_RB_OVERWRITE: programs overwrite the oldest records of a ring buffer.
const FlagOverwrite = 1 << 19

// Program types that ringfold loads: enum bpf_prog_type.
const (
	ProgTypeSocketFilter  = 1
	ProgTypeRawTracepoint = 17
)

// MapInfo is the part of struct bpf_map_info that ringfold uses.
type MapInfo struct {
	ID                 int
	Type               int // enum bpf_map_type
	Name               string
	KeySize, ValueSize int // bytes
	MaxEntries         int
	Flags              int // from its creation
}

// Insn is an instruction of a BPF program: struct bpf_insn.
type Insn struct {
	Code     uint8
	Dst, Src uint8 // registers
	Off      int16
	Imm      int32
}

// Error is a failed call, of the kernel or of libbpf. errors.Is matches its errno, and thus
// fs.ErrPermission and the like.
type Error struct {
	Call   string        // for example bpf(BPF_MAP_CREATE), or a libbpf function
	Detail string        // what the kernel or libbpf said about it; often empty
	Errno  syscall.Errno // 0 if libbpf gave none
}

func (e *Error) Error() string {
	s := e.Call
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Errno == 0 {
		return s + " failed without an errno"
	}
	return s + ": " + e.Errno.Error()
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }
