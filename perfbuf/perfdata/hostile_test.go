package perfdata

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
)

// zeros decompresses anything to records of the kernel's without end, and counts.
type zeros struct {
	from io.Reader
	n    int64
}

func (z *zeros) Reset(from io.Reader) error { z.from = from; return nil }

func (z *zeros) Read(b []byte) (int, error) {
	n := copy(b, bytes.Repeat([]byte{10, 0, 0, 0, 0, 0, 8, 0}, max(len(b)/8, 1)))
	z.n += int64(n)
	return n, nil
}

// Of records that decompress to more than is believed, there are as many as that is.
func TestInflateLimit(t *testing.T) {
	const most = 1 << 16
	b := seeds(t)[0]
	r, err := parse("bomb", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{most: "decompress to more than 65536 bytes", most + 100: "more than 65636"} {
		var out bytes.Buffer
		z := &zeros{}
		why, err := r.inflateTo(bufio.NewWriter(&out), z, limit)
		if err != nil || !strings.Contains(why, want) {
			t.Fatal(why, err)
		}
		if z.n > limit+64<<10 || int64(out.Len()) > limit+int64(len(b)) {
			t.Fatalf("%d bytes decompressed, %d written, where %d are allowed", z.n, out.Len(), limit)
		}
	}
}

// Lookup of an event by id does not scan the other ids: with a million ids and records, that would
// take hours.
func TestManyIDs(t *testing.T) {
	const each, attrs, updates = 8000, 125, 1_000_000
	b := native.AppendUint64([]byte(magic), pipeHeader)
	grow := func(typ uint32, size int) []byte {
		b = append(b, make([]byte, size)...)
		rec := b[len(b)-size:]
		putHeader(rec, typ, size)
		return rec
	}
	for i := range attrs {
		rec := grow(typeHeaderAttr, 8+attrSize+8*each)
		copy(rec[8:], Options{}.attr(swBPFOutput))
		for j := range each {
			native.PutUint64(rec[8+attrSize+8*j:], uint64(1+i*each+j))
		}
	}
	for i := range updates {
		rec := grow(typeEventUpdate, 32)
		native.PutUint64(rec[8:], updateName)
		native.PutUint64(rec[16:], uint64(attrs*each-i%2)) // the last, and one before
		copy(rec[24:], []string{"last", "before"}[i%2])
	}
	native.PutUint64(b[len(b)-16:], each) // the last of the first event
	r, err := parse("ids", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.layouts) != attrs || len(r.byID) != attrs*each || r.layouts[0].name != "before" || r.layouts[1].name != "" || r.layouts[attrs-1].name != "last" {
		t.Fatal(len(r.layouts), len(r.byID), r.layouts[0].name, r.layouts[attrs-1].name)
	}
	for i := range mostIDs/each + 1 - attrs {
		copy(grow(typeHeaderAttr, 8+attrSize+8*each)[8:], b[pipeHeader+8:][:attrSize+8*each])
		for j := range each {
			native.PutUint64(b[len(b)-8*each+8*j:], uint64(1+(attrs+i)*each+j))
		}
	}
	if _, err := parse("ids", bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), "ids: too many") {
		t.Fatal(err)
	}
}

// Raw data lies behind the callchain, if that is as long as it says.
func TestCallchain(t *testing.T) {
	l := &layout{sampleType: sampleCallchain, sample: fields{size: 8}}
	for entries, want := range map[uint64]bool{2: true, 3: false, 1 << 61: false, 1<<61 + 2: false, 1<<64 - 1: false} {
		b := make([]byte, 8)
		for _, v := range []uint64{entries, 1 << 40, 1 << 40} {
			b = native.AppendUint64(b, v)
		}
		b = append(native.AppendUint32(b, 4), "data"...)
		if got, ok := l.payload(b); ok != want || ok && string(got) != "data" {
			t.Fatalf("%d entries: %q, %v", entries, got, ok)
		}
	}
}
