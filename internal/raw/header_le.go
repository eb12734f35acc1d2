//go:build !(armbe || arm64be || mips || mips64 || ppc || ppc64 || s390 || s390x || sparc || sparc64)

package raw

// struct perf_event_header (include/uapi/linux/perf_event.h) as one little-endian word: type, misc,
// size. And the header of a BPF ring buffer: length with flags, pg_off.
const (
	perfBits  = 7<<48 | 0xffffffff // the bits of size that a multiple of 8 lacks; and type
	perfWant  = typeSample
	perfShift = 48 // of size

	ringBufBits  = ringBufBusy | ringBufDiscarded
	ringBufShift = 0 // of length
)
