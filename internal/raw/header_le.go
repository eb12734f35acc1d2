//go:build !(armbe || arm64be || mips || mips64 || ppc || ppc64 || s390 || s390x || sparc || sparc64)

package raw

// struct perf_event_header (include/uapi/linux/perf_event.h) as one little-endian word: type, misc, size.
const (
	headerMask = 7<<48 | 0xffffffff // of size, what no multiple of 8 has; and type
	headerWant = typeSample
)

func headerSize(h uint64) uint64 { return h >> 48 }
