package perfdata

import (
	"errors"
	"fmt"
	"io"

	"github.com/ringfold/ringfold/internal/newfile"
)

// Create makes a file, and a recorder that writes to it. With limits in the options, the name is
// that of a series of files.
//
// The file is always a new one, with mode 0600: Create follows no link. What had its name becomes
// path.old, as with perf record. The file gets the name as soon as it can be read, so a recording
// can be read while it is written, and after a crash. With Options.Until it gets the name at Close:
// until then, it is called path.part and a number, and a write that fails removes it.
//
// The path of a device or an open file, such as /dev/null or /dev/stdout, gets the pipe format, as
// of [NewRecorder]. Create fails with the system's errors, for other paths that are not regular
// files, and for invalid options.
func Create(path string, o Options) (*Recorder, error) {
	if newfile.Special(path) {
		f, err := newfile.Create(path)
		if err != nil {
			return nil, fmt.Errorf("perfdata: %w", err)
		}
		r, err := NewRecorder(f, o)
		if err != nil {
			f.Close()
			return nil, err
		}
		r.out.(*pipe).close = f.Close
		return r, nil
	}
	o, err := o.effective()
	if err != nil {
		return nil, err
	}
	r := newRecorder(o)
	r.out = &file{path: path, recorder: r}
	return r.first()
}

// RoundWriter is a writer that wants to know how far a recording is complete, such as one that
// sends it in messages. Each Write has whole records.
type RoundWriter interface {
	io.Writer
	// Round says that all events up to a time, in ns of CLOCK_MONOTONIC, have been written, if the
	// recorded stream is an exact one: others may still write earlier events. It comes after each
	// [Recorder.Flush] that has written, and after each marker
	// ([perfbuf.StreamOptions].FlushEvery). An error ends the recording, as that of a Write does.
	Round(through uint64) error
}

// NewRecorder makes a recorder that writes the pipe format, for `perf script -i -`, to w, which may
// be a [RoundWriter]. It writes nothing twice, so w may be a pipe or a compressor. There is no
// rotation. Open reads such files too.
func NewRecorder(w io.Writer, o Options) (*Recorder, error) {
	o, err := o.effective()
	switch {
	case err != nil:
	case w == nil:
		err = errors.New("perfdata.NewRecorder: the io.Writer is nil: pass one, or use Create")
	case o.rotates():
		err = errors.New("perfdata.NewRecorder: MaxBytes and MaxAge begin new files: use Create, with the path of a file")
	}
	if err != nil {
		return nil, err
	}
	r := newRecorder(o)
	r.out = &pipe{w: w, close: func() error { return nil }, recorder: r}
	return r.first()
}
