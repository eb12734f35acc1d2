//go:build armbe || arm64be || mips || mips64 || ppc || ppc64 || s390 || s390x || sparc || sparc64

package raw

// struct perf_event_header (include/uapi/linux/perf_event.h) as one big-endian word: type, misc, size.
const (
	headerMask = 0xffffffff<<32 | 7 // type; and of size, what no multiple of 8 has
	headerWant = typeSample << 32
)

func headerSize(h uint64) uint64 { return h & 0xffff }
