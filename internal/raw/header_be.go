//go:build armbe || arm64be || mips || mips64 || ppc || ppc64 || s390 || s390x || sparc || sparc64

package raw

// struct perf_event_header (include/uapi/linux/perf_event.h) as one big-endian word: type, misc,
// size. And the header of a BPF ring buffer: length with flags, pg_off.
const (
	perfBits  = 0xffffffff<<32 | 7 // type; and the bits of size that a multiple of 8 lacks
	perfWant  = typeSample << 32
	perfShift = 0 // of size

	ringBufBits  = (ringBufBusy | ringBufDiscarded) << 32
	ringBufShift = 32 // of length
)
