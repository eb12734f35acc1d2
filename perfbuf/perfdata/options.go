package perfdata

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options configures a recording. The zero value is good: one event, one file without limit.
type Options struct {
	// Events are the events of the file: one for each reader of a merged stream that is to be told
	// from the others, by its Name ([perfbuf.Options]), which no two share. Events of other readers
	// are recorded as the first. nil is one event; an event without a name is called output.
	Events []EventInfo

	// Since and Until are the times between which the recording has all events, in ns of
	// CLOCK_MONOTONIC, if they are known beforehand, as of a snapshot. The file has them as the
	// times of its first and last sample, which `perf report --header-only` shows. If Until is 0,
	// the file has those of the events. With Until, [Create] shows the file when it is complete.
	Since, Until uint64

	// WallClock says that the times of events, Since and Until are of CLOCK_REALTIME, as those of
	// a [Live] and of [ReplayOptions].WallClock. By default they are of CLOCK_MONOTONIC.
	WallClock bool

	// BufferBytes is the size of a write. 0 is 1 MiB, the least is 64 KiB. A recorder takes no
	// other memory.
	BufferBytes int

	// Compress compresses records, as perf record -z does: perf decompresses them, and so does
	// [ReplayOptions].Decompress. It is for example a *zstd.Encoder of
	// github.com/klauspost/compress, which nothing else may use until Close. nil is no compression.
	Compress Compressor

	// MaxBytes begins a new file before one grows beyond this size, MaxAge when one is this old. 0
	// is no limit. With either, file names have a number before the extension, above the highest
	// existing one: events.000001.data and so on. Each file can be read alone.
	MaxBytes int64
	MaxAge   time.Duration
	// MaxFiles removes the oldest of these files when there are more, including those of earlier
	// recorders, so that restarts do not fill a disk. 0 keeps all.
	MaxFiles int
}

// EventInfo describes an event of the file.
type EventInfo struct {
	Name string
	BTF  []byte // of the payload, to be kept in the file; nil: none
}

// name is what the file calls the event.
func (e EventInfo) name() string { return cmp.Or(e.Name, "output") }

const (
	defaultBuffer = 1 << 20
	leastBuffer   = 1 << 16
	leastFile     = 1 << 20
	mostName      = 255
)

func (o Options) effective() (Options, error) {
	bad := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf("perfdata.Options: "+format, args...)
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = defaultBuffer
	}
	if len(o.Events) == 0 {
		o.Events = []EventInfo{{}}
	}
	for i, e := range o.Events {
		if slices.ContainsFunc(o.Events[:i], func(other EventInfo) bool { return other.name() == e.name() }) {
			return bad("two of Events are named %q: name each after another reader, by the Name of its perfbuf.Options", e.name())
		}
		if len(e.Name) > mostName || strings.Contains(e.Name, "\x00") {
			return bad("an event's name has %d bytes, or contains a zero byte: use at most %d, none of them zero", len(e.Name), mostName)
		}
	}
	switch {
	case o.BufferBytes < leastBuffer:
		return bad("BufferBytes is %d: use at least %d, the size of the largest record", o.BufferBytes, leastBuffer)
	case o.MaxBytes < 0 || o.MaxAge < 0 || o.MaxFiles < 0:
		return bad("MaxBytes is %d, MaxAge %v, MaxFiles %d: must not be negative", o.MaxBytes, o.MaxAge, o.MaxFiles)
	case o.Until == 0 && o.Since != 0:
		return bad("Since is %d, and Until 0: set both, or neither", o.Since)
	case o.MaxBytes > 0 && o.MaxBytes < leastFile:
		return bad("MaxBytes is %d: use at least %d", o.MaxBytes, leastFile)
	case o.MaxFiles > 0 && !o.rotates():
		return bad("MaxFiles is %d, and there is only one file: set MaxBytes or MaxAge", o.MaxFiles)
	}
	return o, nil
}

func (o Options) rotates() bool { return o.MaxBytes > 0 || o.MaxAge > 0 }
