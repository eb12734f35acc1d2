package perfdata

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// Decompressor undoes a [Compressor]: *zstd.Decoder of github.com/klauspost/compress does.
type Decompressor interface {
	io.Reader
	// Reset begins another stream.
	Reset(from io.Reader) error
}

var errCompressed = errors.New("compressed")

// inflate decompresses all records into a temporary file, and has them read from there. Errors
// name offsets in that file.
func (r *recording) inflate(d Decompressor) error {
	if d == nil {
		return fmt.Errorf("perfdata: %s: its records are compressed: set ReplayOptions.Decompress, or record without compression", r.file)
	}
	f, err := os.CreateTemp("", "perfdata-*")
	if err != nil {
		return fmt.Errorf("perfdata: %s: decompressing it: %w", r.file, err)
	}
	os.Remove(f.Name()) // where that cannot be done yet, Close does it
	out := bufio.NewWriterSize(f, blockSize)
	why, err := r.inflateTo(out, d, max(leastInflated, mostRatio*r.blocks.size))
	size, seekErr := f.Seek(0, io.SeekCurrent)
	if err = errors.Join(err, seekErr); err != nil {
		temporary{f}.Close()
		return fmt.Errorf("perfdata: %s: decompressing it: %w", r.file, err)
	}
	if old, ok := r.blocks.f.(io.Closer); ok {
		old.Close()
	}
	cut := r.cut
	r.blocks, r.data, r.end, r.cut = blocks{f: temporary{f}, size: size}, 0, size, ""
	if why != "" {
		cut = why
	}
	if cut == "" {
		return nil
	}
	for off := int64(0); ; { // it ends with a whole record: the reason is known
		b, next, err := r.record(off)
		if b == nil || err != nil {
			r.end, r.cut = off, cut
			return err
		}
		off = next
	}
}

// Records may decompress to so many bytes, or so many times the file, whichever is more. Recorders
// reach 100 times at most, unless payloads are nearly all zeros.
const (
	leastInflated = 1 << 30
	mostRatio     = 1000
)

// inflateTo writes the uncompressed records, then at most most bytes of the others. why reports
// that there are more, or that these are damaged.
func (r *recording) inflateTo(out *bufio.Writer, d Decompressor, most int64) (why string, err error) {
	plain := &outer{recording: r, off: r.data}
	for {
		b, err := plain.next()
		if b == nil || err != nil {
			break // the others end there too
		}
		if native.Uint32(b) < typeHeaderAttr {
			out.Write(b)
		}
	}
	from := &outer{recording: r, off: r.data}
	if err := d.Reset(from); err != nil {
		return "", err
	}
	// Only through Write: the writer's ReadFrom would keep errors of d.
	_, err = io.CopyN(struct{ io.Writer }{out}, d, most)
	// the first failed write's error, if any
	failed := errors.Join(out.Flush(), from.err)
	switch {
	case failed != nil:
		return "", failed
	case err == nil:
		return fmt.Sprintf("its records decompress to more than %d bytes, which recorders do not make of %d: the rest is left out", most, r.blocks.size), nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // recorders never end it
		return "", nil
	}
	return fmt.Sprintf("before offset %d are damaged compressed records (%v)", from.off, err), nil
}

// outer reads the records of a compressed file.
type outer struct {
	*recording
	off  int64
	left []byte // of a compressed record
	err  error
}

func (o *outer) next() (b []byte, err error) {
	b, o.off, err = o.record(o.off)
	return b, err
}

// Read reads the compressed bytes.
func (o *outer) Read(p []byte) (int, error) {
	for len(o.left) == 0 {
		b, err := o.next()
		switch {
		case err != nil:
			o.err = err
			return 0, err
		case b == nil:
			return 0, io.EOF
		case native.Uint32(b) == typeCompressed:
			o.left = b[8:]
		case native.Uint32(b) == typeCompressed2 && len(b) >= 16:
			o.left = b[16:]
			o.left = o.left[:min(native.Uint64(b[8:]), uint64(len(o.left)))]
		}
	}
	n := copy(p, o.left)
	o.left = o.left[n:]
	return n, nil
}

// temporary is a file that is removed in the end.
type temporary struct{ *os.File }

func (t temporary) Close() error {
	err := t.File.Close()
	os.Remove(t.Name())
	return err
}
