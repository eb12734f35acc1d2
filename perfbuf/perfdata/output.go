package perfdata

import (
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ringfold/ringfold/internal/newfile"
)

// output is the destination of a recording. It takes only whole records.
type output interface {
	begin() error    // a file
	full(n int) bool // a new file is to begin before so many bytes more
	write(records []byte) error
	round(through uint64) error // all up to this time has been written
	end() error
}

// file is a file of perf's format, or a series of them.
type file struct {
	path     string
	recorder *Recorder

	f      *newfile.File
	data   int64 // where records begin
	size   int64 // bytes of records
	opened time.Time
	number int // of the file in its series
}

func (w *file) begin() (err error) {
	if o := &w.recorder.opts; o.rotates() {
		if numbers := newfile.Series(w.path); o.MaxFiles > 0 {
			for _, n := range numbers[:max(0, len(numbers)+1-o.MaxFiles)] {
				os.Remove(newfile.Numbered(w.path, n))
			}
		}
		w.f, w.number, err = newfile.CreateNumbered(w.path, w.number)
	} else {
		w.f, err = newfile.Create(w.path)
	}
	if err != nil {
		return err
	}
	head := w.recorder.header()
	w.data, w.size, w.opened = int64(len(head)), 0, time.Now()
	w.recorder.bytes.Add(uint64(len(head)))
	if _, err = w.f.Write(head); err != nil {
		return err
	}
	// For files that are never closed. Without featCompressed, perf would not decompress them.
	b := w.recorder.preamble(featBTF, featCompressed, featClockData)
	if err = w.write(b); err != nil || w.late() {
		return err
	}
	return w.f.Keep() // from now on it can be read
}

// late reports whether the file gets its name only when it is complete, as snapshots do.
func (w *file) late() bool { return w.recorder.opts.Until != 0 }

// preamble returns records that name the events, and those with the given features, or with all. It
// leaves out features that are too large for a record.
func (r *Recorder) preamble(bits ...int) (b []byte) {
	for _, e := range r.events {
		body := native.AppendUint64(native.AppendUint64(nil, updateName), e.id)
		b = appendRecord(b, typeEventUpdate, padded(append(body, e.name+"\x00"...)))
	}
	for _, f := range r.features() {
		body := padded(append(native.AppendUint64(nil, uint64(f.bit)), f.body...))
		if (bits == nil || slices.Contains(bits, f.bit)) && 8+len(body) <= mostRecord {
			b = appendRecord(b, typeHeaderFeature, body)
		}
	}
	return b
}

// padded appends zeros up to a multiple of 8 bytes.
func padded(b []byte) []byte { return append(b, make([]byte, -len(b)&7)...) }

// header is struct perf_file_header, the ids, and the attributes.
func (r *Recorder) header() []byte {
	n := uint64(len(r.events))
	ids, attrs := uint64(headerSize), headerSize+8*n
	data := attrs + n*(attrSize+16)
	b := append(make([]byte, 0, data), magic...)
	for _, v := range []uint64{headerSize, attrSize + 16, attrs, n * (attrSize + 16), data, 0, 0, 0, 0, 0, 0, 0} {
		b = native.AppendUint64(b, v)
	}
	for _, e := range r.events {
		b = native.AppendUint64(b, e.id)
	}
	for i, e := range r.events {
		b = append(b, e.attr...)
		b = native.AppendUint64(native.AppendUint64(b, ids+8*uint64(i)), 8)
	}
	return b
}

func (w *file) full(n int) bool {
	o := &w.recorder.opts
	return w.size > 0 && (o.MaxBytes > 0 && w.data+w.size+int64(n) > o.MaxBytes || o.MaxAge > 0 && time.Since(w.opened) >= o.MaxAge)
}

// write appends records, and then has the header say so: a file is readable at any moment.
func (w *file) write(records []byte) error {
	if _, err := w.f.WriteAt(records, w.data+w.size); err != nil {
		return err
	}
	w.size += int64(len(records))
	w.recorder.bytes.Add(uint64(len(records)))
	_, err := w.f.WriteAt(native.AppendUint64(nil, uint64(w.size)), dataSizeAt)
	return err
}

func (w *file) round(uint64) error { return nil }

// end writes the features behind the records: first a section for each, {offset, size}, then what
// these refer to. The bits that announce them come last.
func (w *file) end() error {
	if w.f == nil {
		return nil
	}
	f := w.f
	w.f = nil
	if w.recorder.err != nil { // without features, so that a replay says that something is missing
		return errors.Join(f.Truncate(w.data+w.size), f.Discard())
	}
	list := w.recorder.features()
	at := w.data + w.size
	next := uint64(at) + 16*uint64(len(list))
	var sections, bodies []byte
	bits := uint64(0)
	for _, f := range list {
		sections = native.AppendUint64(native.AppendUint64(sections, next+uint64(len(bodies))), uint64(len(f.body)))
		bodies = append(bodies, f.body...)
		bits |= 1 << f.bit
	}
	b := append(sections, bodies...)
	_, err := f.WriteAt(b, at)
	if err == nil {
		_, err = f.WriteAt(native.AppendUint64(nil, bits), featuresAt)
	}
	if err == nil {
		w.recorder.bytes.Add(uint64(len(b)))
		err = f.Keep()
	}
	return errors.Join(err, f.Discard())
}

// pipe is perf's format for pipes: records replace the contents of a file's header.
type pipe struct {
	w        io.Writer
	close    func() error
	recorder *Recorder
}

func (p *pipe) begin() error {
	return p.write(append(native.AppendUint64([]byte(magic), pipeHeader), p.recorder.Head()...))
}

// Head returns records that describe the recording: its events, their BTF as far as a record has
// room for that, the host and its clock. The pipe format begins with them, behind 16 bytes. One who
// reads it from later on needs them too: see [Live.Head]. It may be called at any time.
func (r *Recorder) Head() (b []byte) {
	for _, e := range r.events {
		b = appendRecord(b, typeHeaderAttr, native.AppendUint64(slices.Clone(e.attr), e.id))
	}
	return append(b, r.preamble()...)
}

func (p *pipe) full(int) bool { return false }

func (p *pipe) write(b []byte) error {
	n, err := p.w.Write(b)
	p.recorder.bytes.Add(uint64(n))
	return err
}

func (p *pipe) round(through uint64) error {
	if w, ok := p.w.(RoundWriter); ok {
		return w.Round(through)
	}
	return nil
}

func (p *pipe) end() error { return p.close() }
