package perfdata

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// ReplayOptions say how a recording is replayed. The zero value is good.
type ReplayOptions struct {
	// Event names the event that is replayed, if the file has several.
	Event string

	// Speed is a multiple of the recorded pace: 1 is the recorded pace, 10 is ten times as fast. 0
	// is as fast as events are read.
	Speed float64

	// Last replays only the last part of the recording, or of all that are merged, this long. 0 is
	// all.
	Last time.Duration

	// WallClock gives events the times of CLOCK_REALTIME. The file has its offset from
	// CLOCK_MONOTONIC on the recording machine, taken when the file was begun or closed. By it,
	// recordings of several machines, or from before and after a reboot, can be merged, as exactly
	// as the machines' clocks were set.
	WallClock bool

	// Decompress decompresses records that perf record -z or [Options].Compress has compressed. It
	// is for example a *zstd.Decoder of github.com/klauspost/compress. Open uses it only during the
	// call. Without one, Open refuses such files.
	Decompress Decompressor

	// Reader is as for [perfbuf.Open], except that a Name of "" is that of the event. CPUs selects
	// among those of the recording. It ignores NoTime, LanesFD, Lanes and ProgFDs.
	Reader perfbuf.Options
}

// maxSpeed keeps times of the replay's clock far from overflow.
const maxSpeed = 1e6

// Open opens a recording for replay. The [perfbuf.Reader] that it returns works like one of a map,
// with the same ways of reading. It takes files of a [Recorder], and of perf record if samples have
// raw data, times and CPUs:
//
//	perf record -a -e bpf-output/no-inherit=1,name=NAME/ ...
//
// Open needs neither root nor Linux. Events come in order of time, whatever their order in the
// file. An exact stream needs no barriers, because all events are known. [perfbuf.Merge] merges
// recordings, or several events of one file, which is then opened for each. If you add one to a
// running stream, events older than those in the others' rings may be late. A slow reader loses
// nothing. Losses and corrupt memory of the recording are replayed as events; a
// [perfbuf.CorruptError] describes the replay's own ring.
//
// At the end of the recording, Wait, Run, Events and Records return [io.EOF]. If the file was cut,
// is damaged or was not closed, they return an error that wraps [io.ErrUnexpectedEOF] and names the
// offset. All that comes before has been delivered then. Wait fills the rings, so a loop over
// ForEach alone sees only what fits into them: call Wait in between. Drain and Shutdown deliver
// the contents of the rings, not the rest of the file.
//
// Open blocks while it reads the file once, or twice if events are not in order of time. It takes
// 17 MiB of memory for reading, the rings, and 16 bytes per event if these are not in order. It
// decompresses compressed records into a temporary file, of 1 GiB or 1,000 times the recording at
// most, whichever is more; it omits records beyond that, and the end is [io.ErrUnexpectedEOF].
// Untrusted files are safe to open if Decompress bounds its own memory, as
// zstd.WithDecoderMaxWindow does. Errors name the file, and the offset of the fault.
func Open(path string, o ReplayOptions) (*perfbuf.Reader, error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	r, err := open(path, f, size, o)
	if err != nil {
		f.Close()
	}
	return r, err
}

// openFile opens a file, and no pipe.
func openFile(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("perfdata: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: copy it into one, because a recording is read twice", path)
	}
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("perfdata: %w", err)
	}
	return f, st.Size(), nil
}

func open(name string, f io.ReaderAt, size int64, o ReplayOptions) (_ *perfbuf.Reader, err error) {
	rec, err := parse(name, f, size)
	if err != nil {
		return nil, err
	}
	defer func() {
		if f, ok := rec.blocks.f.(io.Closer); ok && err != nil {
			f.Close()
		}
	}()
	if err = rec.choose(o.Event); err != nil {
		return nil, err
	}
	if err = o.complete(rec); err != nil {
		return nil, err
	}
	if o.WallClock {
		if !rec.dated {
			return nil, fmt.Errorf("perfdata: %s: ReplayOptions.WallClock: the file does not have the time of day: record with perf record -k CLOCK_MONOTONIC, or a perfdata.Recorder", name)
		}
		rec.shift = rec.behind
	}
	k := &replay{recording: rec, o: o, poller: poller{interrupts: make(chan struct{}, 1)}}
	k.cpus, k.places, err = rec.plan()
	if err == errCompressed {
		if err = rec.inflate(o.Decompress); err == nil {
			k.cpus, k.places, err = rec.plan()
		}
	}
	if err != nil {
		return nil, err
	}
	return perfbuf.OpenSource(k, o.Reader)
}

// complete checks the options, and completes those of the reader.
func (o *ReplayOptions) complete(rec *recording) error {
	if o.Reader.Time != (perfbuf.TimeSource{}) {
		return errors.New("perfdata.ReplayOptions: Reader.Time is set: leave it unset, because events are replayed by the times of their records")
	}
	if !(o.Speed >= 0 && o.Speed <= maxSpeed) || o.Last < 0 {
		return fmt.Errorf("perfdata.ReplayOptions: Speed is %v and Last %v: must not be negative, and Speed at most %v", o.Speed, o.Last, maxSpeed)
	}
	o.Reader.Name, o.Reader.NoTime = cmp.Or(o.Reader.Name, rec.want.name), false
	o.Reader.LanesFD, o.Reader.Lanes, o.Reader.ProgFDs = 0, nil, nil
	if o.Reader.Wakeup == (perfbuf.Wakeup{}) {
		o.Reader.Wakeup.Events = 1
	}
	return nil
}

// ended is the error at the end of the recording.
func (r *recording) ended() error {
	if r.cut == "" {
		return io.EOF
	}
	return fmt.Errorf("perfdata: %s: %s: %w", r.file, r.cut, io.ErrUnexpectedEOF)
}
