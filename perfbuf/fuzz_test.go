package perfbuf

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// FuzzReader reads rings of arbitrary bytes, whose heads go on, jump and go back, in all ways, in
// any order: by ring and over all, by events and by batches, to the end and not, waiting before or
// not, through ordered streams that are opened and closed. It must come to an end, deliver exactly
// the records that Parse finds, locate corrupt memory, and account for each byte.
func FuzzReader(f *testing.F) {
	w := ringtest.New(256, raw.LayoutRawTime, 0)
	for i := range uint64(5) {
		w.Output(i+1, ringtest.Payload(i, 12+int(i)*9))
	}
	f.Add(w.Data(), []byte{0, 0, 10, 0, 1, 4, 0})
	f.Add(w.Data(), []byte{1, 2, 9, 2, 40, 7, 0, 8, 255, 2, 7, 8, 0, 9, 0, 3, 40, 4, 3})
	f.Add([]byte{9, 0, 0, 0, 0, 0, 0, 0}, []byte{2, 0, 0, 1, 8, 6, 0, 2, 3, 5, 2, 3, 12, 4, 255})
	f.Add([]byte{2, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, []byte{4, 0, 0, 1, 96, 7, 9, 8, 3, 11, 1, 10, 0, 4, 0})
	f.Add(w.Data(), []byte{32, 0, 1, 13, 0, 12, 0, 13, 2, 8, 1, 3, 62, 13, 0, 12, 1, 13, 4, 4, 9, 13, 0})
	f.Add(w.Data(), []byte{96, 2, 3, 13, 2, 4, 200, 13, 0, 8, 25, 2, 9, 13, 0, 3, 63, 13, 1})
	f.Fuzz(func(t *testing.T, b, ops []byte) {
		if len(ops) == 0 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			z := newReaderFuzz(t, ops[0])
			for ops = ops[1:]; len(ops) >= 2; ops = ops[2:] {
				z.do(ops[0], ops[1], b)
			}
			z.finish()
		})
	})
}

// readerFuzz is a Reader under test, and what its rings should give.
type readerFuzz struct {
	t      *testing.T
	k      *fake
	start  uint64
	order  StreamOptions
	stream *Stream    // ordered
	others [3]*Stream // of each ring, and the unordered one of all
	filled int
	times  uint64

	samples, corrupt, lost [2]uint64 // delivered, by ring
	found                  uint64    // samples and corrupt stretches, in streams
	came                   uint64    // of that
	given                  bool      // a stream was closed with some of it
	last                   uint64    // time in the stream
	flushes, flushed       int
}

func newReaderFuzz(t *testing.T, options byte) *readerFuzz {
	z := &readerFuzz{t: t, times: 1 << 39}
	opts := Options{Wakeup: fuzzWakeup(options)}
	if options&1 != 0 {
		opts.NoTime = true
		opts.Time = PayloadTime(4)
	}
	z.start = []uint64{0, 1<<32 - 64, ^uint64(0) - 1023, 1<<63 - 64}[options>>1&3]
	if options&8 != 0 {
		z.order.Spill.Bytes = -1
	}
	z.order.DropLate = options&16 != 0
	z.k = fuzzFake(t, z.start, opts)
	return z
}

// do does one thing.
func (z *readerFuzz) do(op, arg byte, b []byte) {
	i, v := int(arg&1), uint64(arg)
	w := z.k.w[i]
	switch op % 14 {
	case 0: // the head advances over the bytes there
		z.head(i, w.Head()+8*v)
	case 1:
		if len(b) > 0 {
			for at := int(v) * 16; at < fakeRingSize; {
				n := copy(w.Data()[at:], b[z.filled%len(b):])
				z.filled, at = z.filled+n, at+n
			}
		}
	case 2: // a program outputs, if the ring is in order
		if w.Head()-w.Tail() > fakeRingSize {
			return
		}
		z.times += v
		if err := w.Output(z.times, ringtest.Payload(z.times, 12+int(v))); err == nil && v%16 == 0 {
			for range 200 {
				w.Output(z.times-v, ringtest.Payload(z.times, 12+int(v)))
			}
		}
	case 3:
		z.head(i, w.Head()+1<<(v%64)) // neither aligned nor within the ring
	case 4:
		z.head(i, w.Head()-8*v)
	case 5:
		z.pass(z.all(), int(v), false)
	case 6:
		z.pass(z.all(), int(v), true)
	case 7:
		z.pass(z.ring(i), int(v), v&2 != 0)
	case 8:
		if z.stream == nil {
			z.closeOthers(-1)
			o := z.order
			o.Order = Slack(time.Duration(v << (v % 40)))
			s, err := z.k.Stream(o)
			if err != nil {
				z.t.Fatal(err)
			}
			z.stream, z.last = s, 0
		}
	case 9:
		z.streamPass(int(v), v&2 != 0, v&4 != 0)
	case 10:
		z.close(v%8 == 7)
	case 11:
		z.k.clock.Add(v << (v % 40))
	case 12:
		s := z.stream
		if s == nil {
			s = z.all()
		}
		if err := s.Flush(); err != nil {
			z.t.Fatal(err)
		}
		z.flushes++
	case 13:
		z.wait(arg)
	}
}

// all is the unordered stream, nil while the ordered one has its rings.
func (z *readerFuzz) all() *Stream {
	return z.other(2, func() (*Stream, error) { return z.k.Stream(StreamOptions{Order: Unordered()}) })
}

// ring is the stream of a ring.
func (z *readerFuzz) ring(i int) *Stream { return z.other(i, z.k.all()[i].Stream) }

func (z *readerFuzz) other(i int, open func() (*Stream, error)) *Stream {
	if z.stream != nil {
		if _, err := open(); !errors.Is(err, ErrBusy) {
			z.t.Fatalf("beside a stream: %v", err)
		}
		return nil
	}
	z.closeOthers(i)
	if z.others[i] == nil {
		var err error
		if z.others[i], err = open(); err != nil {
			z.t.Fatal(err)
		}
	}
	return z.others[i]
}

// closeOthers closes those that keep stream i from its rings; -1: an ordered one.
func (z *readerFuzz) closeOthers(i int) {
	for j, s := range z.others {
		if s != nil && j != i && (j == 2 || i == 2 || i < 0) {
			s.Close()
			z.others[j] = nil
		}
	}
}

func (z *readerFuzz) head(i int, to uint64) {
	w := z.k.w[i]
	if to-w.Tail()-1<<63 < 8 {
		return // is this forwards or backwards?
	}
	w.SetHead(to)
	w.Publish()
	w.SetHead(to &^ 7) // as the reader takes it
}

// expect is what lies between two offsets of a ring. A head that has gone back is not followed.
func (z *readerFuzz) expect(i int, from, head uint64) (recs []raw.Record) {
	r := z.k.all()[i].in().Raw
	if int64(head-from) <= 0 {
		return nil
	}
	for from != head {
		rec := ringtest.Parse(r, from, head)
		from += rec.Size
		if time, ok := r.Payload8(&rec, r.TimeAt()); ok {
			rec.Time = time
		}
		if rec.Kind == raw.Unknown || rec.Kind == raw.Lost && rec.Lost == 0 {
			continue
		}
		recs = append(recs, rec)
	}
	return recs
}

// pass reads without order, until so many events have come; 255 is all.
func (z *readerFuzz) pass(src *Stream, limit int, batch bool) {
	if src == nil { // the ordered stream has its rings
		return
	}
	var expected [2][]raw.Record
	for i, ring := range z.k.all() {
		expected[i] = z.expect(i, ring.in().Raw.Tail(), ring.in().Raw.Head())
	}
	n := 0
	z.read(src, limit, batch, func(ev Event) {
		if ev.Kind() == KindFlushed {
			return
		}
		n++
		i := ev.CPU() - firstCPU
		if len(expected[i]) == 0 {
			z.t.Fatalf("ring %d: %v behind the end", i, ev.Record())
		}
		want := expected[i][0]
		expected[i] = expected[i][1:]
		got := ev.Record()
		if got.Kind != Kind(want.Kind) || len(got.Data) != int(want.Len) || want.Kind != raw.Corrupt && got.Time != want.Time ||
			want.Kind == raw.Lost && got.Lost != want.Lost {
			z.t.Fatalf("ring %d: %+v, where there is %+v", i, got, want)
		}
		if want.Kind == raw.Corrupt {
			var err *CorruptError
			if !errors.As(got.Err, &err) || err.Offset != want.Off || err.Skipped != want.Size {
				z.t.Fatalf("ring %d: %v, where there is %+v", i, got.Err, want)
			}
		}
	})
	for i, ring := range z.k.all() {
		if ring.in().Raw.Tail() == ring.in().Raw.Head() && len(expected[i]) > 0 {
			z.t.Fatalf("ring %d: %d records are passed over", i, len(expected[i]))
		}
		if left := z.expect(i, ring.in().Raw.Tail(), ring.in().Raw.Head()); len(left) != len(expected[i]) {
			z.t.Fatalf("ring %d: %d records are left, not %d", i, len(left), len(expected[i]))
		}
	}
}

// read is a pass over anything.
func (z *readerFuzz) read(src *Stream, limit int, batch bool, f func(Event)) {
	left := limit
	each := func(ev Event) error {
		z.count(ev)
		f(ev)
		if left--; left <= 0 && limit < 255 {
			return ErrStop
		}
		return nil
	}
	var err error
again:
	if batch {
		err = src.ForEachBatch(func(b *Batch) error {
			for ev := range b.Events() {
				if err := each(ev); err != nil {
					return err
				}
			}
			return nil
		})
	} else {
		err = src.ForEach(each)
	}
	if foreign(err) {
		goto again
	}
	if err != nil {
		z.t.Fatal(err)
	}
}

// foreign reports whether a pass says, once, that times are another clock's.
func foreign(err error) bool {
	return err != nil && strings.Contains(err.Error(), "more than a second in the future")
}

// count accounts for an event and reads all its bytes.
func (z *readerFuzz) count(ev Event) {
	if ev.Kind() == KindFlushed {
		if z.flushed++; z.flushed > z.flushes {
			z.t.Fatal("a marker without a Flush")
		}
		return
	}
	i := ev.CPU() - firstCPU
	switch ev.Kind() {
	case KindSample:
		z.samples[i]++
		sum := byte(0)
		for _, c := range ev.Bytes() {
			sum += c
		}
		for _, c := range ev.Record().Data {
			sum -= c
		}
		if sum != 0 || len(ev.Bytes()) > fakeRingSize {
			z.t.Fatalf("%d bytes, which a copy differs from by %d", len(ev.Bytes()), sum)
		}
	case KindLost:
		z.lost[i] += ev.Lost()
		if ev.Lost() == 0 || ev.LostAfter() > ev.Time() {
			z.t.Fatalf("%d lost after %d, at %d", ev.Lost(), ev.LostAfter(), ev.Time())
		}
	case KindCorrupt:
		z.corrupt[i]++
		var err *CorruptError
		if !errors.As(ev.Err(), &err) || err.CPU != ev.CPU() || err.Offset&7 != 0 || err.Skipped == 0 || err.Reason == "" {
			z.t.Fatal(ev.Err())
		}
	default:
		z.t.Fatal(ev.Kind())
	}
}

// scanning is called before the stream scans, and its result after that: it counts the bytes that
// the stream accepted. A head too far ahead is not accepted.
func (z *readerFuzz) scanning() (done func()) {
	var from [2]uint64
	for i := range from {
		from[i] = z.stream.in.Order.Scanned(i)
	}
	return func() {
		for i := range from {
			for _, rec := range z.expect(i, from[i], z.stream.in.Order.Scanned(i)) {
				if rec.Kind != raw.Lost {
					z.found++
				}
			}
		}
	}
}

// streamPass is a round of the stream, up to its watermark or to the end.
func (z *readerFuzz) streamPass(limit int, batch, rest bool) {
	if z.stream == nil {
		return
	}
	defer z.scanning()()
	check := func(ev Event) {
		if ev.Late() != (ev.Time() < z.last) {
			z.t.Fatalf("%v at %d after %d, late: %v", ev.Kind(), ev.Time(), z.last, ev.Late())
		}
		if ev.Kind() == KindFlushed {
			return // an event after a marker is late only if it would be late without it
		}
		z.last = max(z.last, ev.Time())
		if ev.Kind() == KindSample || ev.Kind() == KindCorrupt {
			z.came++
		}
	}
	if !rest {
		z.read(z.stream, limit, batch, check)
		return
	}
	pending := func() error {
		return z.stream.ForEachPending(func(ev Event) error { z.count(ev); check(ev); return nil })
	}
	err := pending()
	if foreign(err) {
		err = pending()
	}
	if err != nil {
		z.t.Fatal(err)
	}
}

// close ends the stream, before or after delivering the events it holds.
func (z *readerFuzz) close(give bool) {
	if z.stream == nil {
		return
	}
	if give {
		z.given = true
	} else {
		z.streamPass(255, false, true)
	}
	z.stream.Close()
	z.stream = nil
}
