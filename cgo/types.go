package libbpf

// MapTypePerfEventArray is BPF_MAP_TYPE_PERF_EVENT_ARRAY, the kernel's number for perf event
// arrays.
const MapTypePerfEventArray = 4

// Map types that ringfold creates: enum bpf_map_type.
const (
	MapTypeArray       = 2
	MapTypeArrayOfMaps = 12
)

// Map types with rings to read, besides perf event arrays: enum bpf_map_type.
const (
	MapTypeHashOfMaps = 13
	MapTypeRingbuf    = 27
)

// MapInfo is the part of struct bpf_map_info that ringfold uses.
type MapInfo struct {
	ID         int
	Type       int // enum bpf_map_type
	Name       string
	MaxEntries int
	Flags      int // from its creation
}

// Info describes the libbpf that the program runs with.
type Info struct {
	Version string // libbpf_version_string, for example "v1.4"
	Headers string // the version of the headers at build time, for example "v1.4"
	Static  bool   // linked into the program rather than loaded
	Path    string // the file of the shared library; empty if there is none
}

// Program types that ringfold loads: enum bpf_prog_type.
const (
	ProgTypeSocketFilter  = 1
	ProgTypeRawTracepoint = 17
)

// Insn is an instruction of a BPF program: struct bpf_insn.
type Insn struct {
	Code     uint8
	Dst, Src uint8 // registers
	Off      int16
	Imm      int32
}
