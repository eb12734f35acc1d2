package perfdata

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// recording is a perf.data file and what its header says. All of it is checked: a bad file leads to
// an error that names the offset.
type recording struct {
	file   string
	blocks blocks
	data   int64 // where records begin
	end    int64 // and end
	pipe   bool
	cut    string // why it ends before its end; empty: it does not
	last   uint64 // time of the last event
	home   int    // the CPU whose ring gets losses of CPUs that have nothing else

	layouts []*layout
	byID    map[uint64]*layout // of all their ids
	ours    bool
	btf     []byte  // HEADER_BPF_BTF of a Recorder
	times   span    // HEADER_SAMPLE_TIME
	host    string  // HEADER_HOSTNAME
	behind  uint64  // by which its clock is behind CLOCK_REALTIME, of HEADER_CLOCK_DATA
	dated   bool    // there is one
	shift   uint64  // added to times
	want    *layout // the event that is replayed
}

// mostAttrs and mostIDs bound a header's demands: 4 events and 5,000 CPUs are 20,000 ids.
const (
	mostAttrs = 4096
	mostIDs   = 1 << 20
)

func (r *recording) bad(off int64, format string, args ...any) error {
	return fmt.Errorf("perfdata: %s: at offset %d: %s", r.file, off, fmt.Sprintf(format, args...))
}

// read fetches n bytes of the header.
func (r *recording) read(off uint64, n uint64, what string) ([]byte, error) {
	if size := uint64(r.blocks.size); off > size || n > size-off {
		return nil, r.bad(int64(min(off, size)), "%s of %d bytes goes past the end of the file, which has %d", what, n, size)
	}
	b := make([]byte, n)
	if _, err := r.blocks.f.ReadAt(b, int64(off)); err != nil && err != io.EOF {
		return nil, fmt.Errorf("perfdata: %s: %w", r.file, err)
	}
	return b, nil
}

// parse reads the header of a file.
func parse(name string, f io.ReaderAt, size int64) (*recording, error) {
	r := &recording{file: name, blocks: blocks{f: f, size: size}, byID: map[uint64]*layout{}}
	b, err := r.read(0, pipeHeader, "the header")
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.Equal(b[:8], []byte("2ELIFREP")):
		return nil, r.bad(0, "it was recorded on a machine of the other byte order: replay it on such a machine")
	case string(b[:8]) != magic:
		return nil, r.bad(0, "begins with %q: not a perf.data file", b[:8])
	case native.Uint64(b[8:]) == pipeHeader:
		r.pipe, r.data, r.end = true, pipeHeader, size
	default:
		err = r.parseFile()
	}
	if err == nil {
		cut := r.cut
		err = r.parsePreamble()
		r.cut = cut
	}
	if err != nil {
		return nil, err
	}
	r.ours = slices.ContainsFunc(r.layouts, (*layout).mark)
	return r, nil
}

func (r *recording) parseFile() error {
	h, err := r.read(0, headerSize, "the header")
	if err != nil {
		return err
	}
	attrSize, attrs, attrsSize := native.Uint64(h[16:]), native.Uint64(h[24:]), native.Uint64(h[32:])
	if attrSize < 64+16 || attrSize > 4096 || attrsSize%attrSize != 0 || attrsSize/attrSize > mostAttrs {
		return r.bad(16, "%d bytes of attributes with %d each: not those of a perf.data file", attrsSize, attrSize)
	}
	list, err := r.read(attrs, attrsSize, "the list of attributes")
	if err != nil {
		return err
	}
	total := uint64(0)
	for ; len(list) > 0; list = list[attrSize:] {
		ids, n := native.Uint64(list[attrSize-16:]), native.Uint64(list[attrSize-8:])/8
		if total += n; n > mostIDs || total > mostIDs {
			return r.bad(int64(attrs), "%d ids and more: too many", n)
		}
		b, err := r.read(ids, 8*n, "a list of ids")
		if err != nil {
			return err
		}
		r.addLayout(newLayout(list), b)
	}
	data, size := native.Uint64(h[40:]), native.Uint64(h[dataSizeAt:])
	file := uint64(r.blocks.size)
	if data > file {
		return r.bad(40, "records are to begin at %d, and the file has %d bytes", data, file)
	}
	r.data, r.end = int64(data), int64(data+min(size, file-data))
	features := native.Uint64(h[featuresAt:])
	switch {
	case size == 0 && features == 0 && r.data < r.blocks.size: // perf, killed
		r.end, r.cut = r.blocks.size, "its recorder was killed"
	case size > file-data:
		r.cut = fmt.Sprintf("it was cut: %d bytes are missing at least", size-(file-data))
	case features == 0:
		r.cut = "its recorder still writes it, was killed, or ran out of room"
	default:
		r.parseFeatures(features)
	}
	return nil
}

// addLayout adds an attribute with its ids.
func (r *recording) addLayout(l *layout, ids []byte) {
	if len(ids) >= 8 {
		l.id, l.named = native.Uint64(ids), true
	}
	for ; len(ids) >= 8; ids = ids[8:] {
		r.byID[native.Uint64(ids)] = l
	}
	r.layouts = append(r.layouts, l)
}

// parseFeatures reads events' names, their BTF and the like from the sections behind the records,
// one for each bit.
func (r *recording) parseFeatures(bits uint64) {
	at := uint64(r.end)
	for bit := range 64 {
		if bits&(1<<bit) == 0 {
			continue
		}
		switch bit {
		case featEventDesc, featBTF, featSampleTime, featHostname, featClockData:
			var b []byte
			section, err := r.read(at, 16, "a section of the features")
			if err == nil {
				b, err = r.read(native.Uint64(section), native.Uint64(section[8:]), "a feature")
			}
			if err != nil {
				r.cut = "it was cut behind the records"
				return
			}
			r.feature(bit, b)
		}
		at += 16
	}
}

func (r *recording) feature(bit int, b []byte) {
	switch bit {
	case featEventDesc:
		r.nameEvents(b)
	case featBTF:
		r.btf = b
	case featHostname:
		if len(b) > 4 {
			r.host, _, _ = strings.Cut(string(b[4:]), "\x00")
		}
	case featClockData: // version, clock, CLOCK_REALTIME's reading, and the clock's
		if len(b) >= 24 && !r.dated {
			r.dated, r.behind = true, native.Uint64(b[8:])-native.Uint64(b[16:])
		}
	case featSampleTime:
		if len(b) >= 16 {
			r.times = span{native.Uint64(b), native.Uint64(b[8:])}
		}
	}
}

// nameEvents reads HEADER_EVENT_DESC. A faulty section leaves events without a name.
func (r *recording) nameEvents(b []byte) {
	if len(b) < 8 {
		return
	}
	n, size := native.Uint32(b), uint64(native.Uint32(b[4:]))
	b = b[8:]
	for range min(n, mostAttrs) {
		if uint64(len(b)) < size+8 {
			return
		}
		ids, text := uint64(native.Uint32(b[size:])), uint64(native.Uint32(b[size+4:]))
		b = b[size+8:]
		if text > uint64(len(b)) || ids*8 > uint64(len(b))-text {
			return
		}
		name, _, _ := strings.Cut(string(b[:text]), "\x00")
		b = b[text:]
		if ids > 0 { // the others are of the same event
			r.name(native.Uint64(b), name)
		}
		b = b[8*ids:]
	}
}

// parsePreamble reads the records before the kernel's first: in the pipe format, the whole header.
func (r *recording) parsePreamble() error {
	for off := r.data; ; {
		b, next, err := r.record(off)
		if err != nil {
			return err
		}
		if b == nil || native.Uint32(b) < typeHeaderAttr {
			break
		}
		switch typ := native.Uint32(b); {
		case typ == typeCompressed || typ == typeCompressed2:
			return nil
		case typ == typeHeaderAttr && r.pipe && len(b) >= 8+64 && len(r.layouts) < mostAttrs:
			size := int(native.Uint32(b[12:]))
			if size < 64 || size > len(b)-8 {
				size = len(b) - 8
			}
			if r.addLayout(newLayout(b[8:]), b[8+size:]); len(r.byID) > mostIDs {
				return r.bad(off, "%d ids: too many", len(r.byID))
			}
		case typ == typeEventUpdate && len(b) > 24 && native.Uint64(b[8:]) == updateName:
			name, _, _ := strings.Cut(string(b[24:]), "\x00")
			r.name(native.Uint64(b[16:]), name)
		case typ == typeHeaderFeature && len(b) > 16 && native.Uint64(b[8:]) != featEventDesc:
			// A feature may have padding: its true size is unknown.
			r.feature(int(min(native.Uint64(b[8:]), 64)), slices.Clone(b[16:]))
		}
		off = next
	}
	return nil
}

// name names the event that has an id.
func (r *recording) name(id uint64, name string) {
	if l := r.byID[id]; l != nil {
		l.name = name
	}
}

// choose says which event is replayed.
func (r *recording) choose(name string) error {
	var fit []*layout
	var there []string
	for _, l := range r.layouts {
		if l.mark() {
			continue
		}
		says := fmt.Sprintf("%q (type %d, config %d)", l.name, l.typ, l.config)
		if why := l.lacks(); why != "" {
			says += " has " + why
		} else if name == "" || l.name == "" || name == l.name { // killed recorders leave no names
			fit = append(fit, l)
		}
		there = append(there, says)
	}
	events := strings.Join(there, "; ")
	switch {
	case len(fit) == 0:
		return fmt.Errorf("perfdata: %s: no event can be replayed: record raw data, times and CPUs (perf record -e bpf-output/no-inherit=1,name=NAME/, or -R -T --sample-cpu): the file has: %s", r.file, events)
	case len(fit) > 1:
		return fmt.Errorf("perfdata: %s: more than one event can be replayed: name one with ReplayOptions.Event: the file has: %s", r.file, events)
	}
	r.want = fit[0]
	if len(r.layouts) > 1 && slices.ContainsFunc(r.layouts, func(l *layout) bool { return l.sample.id != r.want.sample.id }) {
		return fmt.Errorf("perfdata: %s: events identify their records in different ways: record with perf 3.13 or newer", r.file)
	}
	return nil
}
