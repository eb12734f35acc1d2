package perfdata

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
)

// FuzzOpen reads files of arbitrary bytes to their end, by both ways of reading. The file bounds
// the samples, which stay in order.
func FuzzOpen(f *testing.F) {
	for _, b := range seeds(f) {
		if r, err := open("seed", bytes.NewReader(b), int64(len(b)), ReplayOptions{}); err != nil {
			f.Fatal(err)
		} else {
			r.Close()
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		for _, ordered := range []bool{false, true} {
			r, err := open("fuzz", bytes.NewReader(b), int64(len(b)), ReplayOptions{})
			if err != nil {
				return
			}
			n, last := 0, uint64(0)
			see := func(ev perfbuf.Event) error {
				n += 8 + len(ev.Bytes())
				if ordered && ev.Kind() == perfbuf.KindSample && (ev.Time() < last || ev.Late()) {
					t.Fatalf("%v comes after %d", ev, last)
				}
				last = max(last, ev.Time())
				return nil
			}
			o := perfbuf.StreamOptions{BarrierInterval: -1}
			if !ordered {
				o.Order = perfbuf.Unordered()
			}
			s, err := r.Stream(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Run(context.Background(), see); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
			r.Close()
			if n > len(b) {
				t.Fatalf("%d bytes of events in a file of %d", n, len(b))
			}
		}
	})
}

// seeds are small recordings: a file, one that was killed, and a pipe's.
func seeds(tb testing.TB) (list [][]byte) {
	var piped bytes.Buffer
	r, err := NewRecorder(&piped, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	records := func(r *Recorder) {
		for i, typ := range []uint32{typeSample, typeLost, typeFinishedRound, typeSample, typeSample} {
			switch typ {
			case typeSample:
				p := r.room(56)
				clear(p)
				putHeader(p, typ, 56)
				native.PutUint64(p[idAt:], uint64(1+i/4)) // the last is corrupt memory
				native.PutUint64(p[timeAt:], uint64(100-i))
				native.PutUint32(p[cpuAt:], uint32(i%2))
				native.PutUint32(p[rawAt:], 12)
			case typeLost:
				p := r.room(48)
				clear(p)
				putHeader(p, typ, 48)
				native.PutUint64(p[16:], 3)
				native.PutUint64(p[24:], 99)
				native.PutUint64(p[40:], 1)
			default:
				putHeader(r.room(8), typ, 8)
			}
		}
	}
	records(r)
	r.Close()
	file := newRecorder(r.opts)
	records(file)
	b := append(file.header(), file.buf...)
	native.PutUint64(b[dataSizeAt:], uint64(len(file.buf)))
	return append(list, piped.Bytes(), b)
}
