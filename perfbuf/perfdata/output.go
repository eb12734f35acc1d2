package perfdata

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// output is where a recording goes. Only whole records are written.
type output interface {
	begin() error    // a file
	full(n int) bool // a new file is to begin before so many bytes more
	write(records []byte) error
	end() error
}

// file is a file of perf's format, or a series of them.
type file struct {
	path     string
	recorder *Recorder

	f      *os.File
	data   int64 // where records begin
	size   int64 // bytes of records
	opened time.Time
	number int // of the file in its series
}

func (w *file) begin() error {
	path := w.path
	if w.recorder.opts.rotates() {
		numbers := series(w.path)
		if len(numbers) > 0 {
			w.number = max(w.number, numbers[len(numbers)-1])
		}
		w.number++
		path = numbered(w.path, w.number)
		if most := w.recorder.opts.MaxFiles; most > 0 {
			for _, n := range numbers[:max(0, len(numbers)+1-most)] {
				os.Remove(numbered(w.path, n))
			}
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) // payloads may be confidential, as perf's are
	if err != nil {
		return err
	}
	head := w.recorder.header()
	w.f, w.data, w.size, w.opened = f, int64(len(head)), 0, time.Now()
	w.recorder.bytes.Add(uint64(len(head)))
	if _, err = f.Write(head); err != nil {
		return err
	}
	b := w.recorder.names()
	if types := w.recorder.btf(); types != nil {
		b = appendFeature(b, feature{featBTF, types}) // for files that are still written, or never closed
	}
	return w.write(b)
}

// appendFeature appends a feature as a record, unless it is too large for one.
func appendFeature(b []byte, f feature) []byte {
	size := (16 + len(f.body) + 7) &^ 7
	if size > mostRecord {
		return b
	}
	body := append(native.AppendUint64(nil, uint64(f.bit)), f.body...)
	return appendRecord(b, typeHeaderFeature, append(body, make([]byte, size-8-len(body))...))
}

// names are records that name the events, and say what time it is, for pipes, and for files that are never closed; without the last one, perf would
// not decompress these.
func (r *Recorder) names() (b []byte) {
	for _, e := range r.events {
		body := native.AppendUint64(native.AppendUint64(nil, updateName), e.id)
		name := make([]byte, (len(e.name)+8)&^7)
		copy(name, e.name)
		b = appendRecord(b, typeEventUpdate, append(body, name...))
	}
	if now := clockData(); now != nil {
		b = appendRecord(b, typeHeaderFeature, append(native.AppendUint64(nil, featClockData), now...))
	}
	if r.packer != nil {
		body := append(native.AppendUint64(nil, featCompressed), r.packer.feature(r.opts.BufferBytes)...)
		b = appendRecord(b, typeHeaderFeature, append(body, 0, 0, 0, 0))
	}
	return b
}

func numbered(path string, n int) string { return fmt.Sprintf("%s.%06d", path, n) }

// series are the numbers of the files that there are, in order, of earlier processes too.
func series(path string) (numbers []int) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), base+".")
		if n, err := strconv.Atoi(suffix); ok && err == nil && n > 0 && numbered(base, n) == e.Name() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

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
	return w.putAt(dataSizeAt, uint64(w.size))
}

func (w *file) putAt(at int64, v uint64) error {
	_, err := w.f.WriteAt(native.AppendUint64(nil, v), at)
	return err
}

// end writes the features behind the records: first a section for each, {offset, size}, then what these refer to. The
// bits that announce them come last.
func (w *file) end() error {
	if w.f == nil {
		return nil
	}
	if w.recorder.err != nil { // without features, so that a replay says that something is missing
		err := errors.Join(w.f.Truncate(w.data+w.size), w.f.Close())
		w.f = nil
		return err
	}
	list := w.recorder.features()
	at := w.data + w.size
	b := make([]byte, 0, 4096)
	body := uint64(at) + 16*uint64(len(list))
	bits := uint64(0)
	for _, f := range list {
		b = native.AppendUint64(native.AppendUint64(b, body), uint64(len(f.body)))
		body += uint64(len(f.body))
		bits |= 1 << f.bit
	}
	for _, f := range list {
		b = append(b, f.body...)
	}
	_, err := w.f.WriteAt(b, at)
	if err == nil {
		err = w.putAt(featuresAt, bits)
		w.recorder.bytes.Add(uint64(len(b)))
	}
	err = errors.Join(err, w.f.Close())
	w.f = nil
	return err
}

// pipe is perf's format for pipes: what a file has in its header comes as records.
type pipe struct {
	w        io.Writer
	recorder *Recorder
}

func (p *pipe) begin() error {
	b := native.AppendUint64([]byte(magic), pipeHeader)
	for _, e := range p.recorder.events {
		b = appendRecord(b, typeHeaderAttr, native.AppendUint64(slices.Clone(e.attr), e.id))
	}
	for _, f := range p.recorder.features() {
		b = appendFeature(b, f)
	}
	return p.write(append(b, p.recorder.names()...))
}

func (p *pipe) full(int) bool { return false }

func (p *pipe) write(b []byte) error {
	n, err := p.w.Write(b)
	p.recorder.bytes.Add(uint64(n))
	return err
}

func (p *pipe) end() error { return nil }
