package perfbuftest_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
)

// FuzzScript runs programs on two CPUs that output anything, in any order, whole and step by step
// with interrupts. Meanwhile it reads, pauses, flushes, closes and streams a Reader. Each output
// must be written, lost or refused. Written samples must be delivered in order or dropped. Losses
// must be reported, or counted at the end.
func FuzzScript(f *testing.F) {
	f.Add([]byte{0, 0, 10, 1, 20, 13, 0})
	f.Add([]byte{1, 0, 200, 0, 201, 0, 202, 13, 3, 5, 0, 6, 2, 6, 3, 0, 1, 6, 4, 6, 5, 7, 0, 13, 255, 9, 4, 13, 0, 14, 7})
	f.Add([]byte{2, 2, 255, 2, 254, 13, 1, 2, 255, 8, 0, 0, 1, 8, 1, 9, 1, 0, 7, 11, 9, 12, 200, 13, 2, 10, 0, 15, 0})
	f.Add([]byte{7, 9, 0, 0, 9, 5, 1, 6, 3, 13, 5, 6, 1, 3, 9, 6, 7, 7, 1, 12, 99, 13, 4, 1, 2, 13, 0, 16, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) == 0 {
			return
		}
		s := newScript(t, script[0])
		for script = script[1:]; len(script) >= 2; script = script[2:] {
			s.step(script[0], script[1])
		}
		s.finish()
	})
}

const scriptCPUs = 2

type script struct {
	t       *testing.T
	k       *perfbuftest.Kernel
	r       *perfbuf.Reader
	stream  *perfbuf.Stream
	unread  bool // at the end
	damaged bool // by an output too large for a record

	running [scriptCPUs][]*program // each interrupts the one before
	ids     [scriptCPUs]uint64     // of outputs

	seen      [scriptCPUs]map[uint64]bool
	samples   [scriptCPUs]uint64
	lost      [scriptCPUs]uint64
	last      uint64 // time in the stream
	watermark uint64
	flushes   int
}

type program struct {
	*perfbuftest.Program
	stage int // steps of an output done
}

func newScript(t *testing.T, options byte) *script {
	s := &script{t: t, k: perfbuftest.New(perfbuftest.Options{CPUs: scriptCPUs})}
	s.unread = options&4 != 0
	o := perfbuf.Options{RingBytes: 4096}
	switch options % 4 {
	case 1:
		o.Wakeup.Events = 3
	case 2:
		o.Wakeup.Bytes = 1000
	case 3:
		o.TotalBytes, o.RingBytes = 20000, 0
	}
	var err error
	if s.r, err = s.k.Open(o); err != nil {
		t.Fatal(err)
	}
	for i := range s.seen {
		s.seen[i] = map[uint64]bool{}
	}
	return s
}

// payload is that of a CPU's next output.
func (s *script) payload(cpu, size int) []byte {
	s.ids[cpu]++
	return ringtest.Payload(s.ids[cpu], max(size, ringtest.MinPayload))
}

// step does one thing.
func (s *script) step(op, arg byte) {
	cpu, v := int(arg)%scriptCPUs, int(arg)
	running := s.running[cpu]
	if n := len(running); n > 0 && (running[n-1].stage != 0 && op%16 == 7 || n == 4 && op%16 < 4) {
		return // an output is not to be broken off, and nothing interrupts an NMI
	}
	switch op % 16 {
	case 0, 1:
		s.output(cpu, v)
	case 2:
		s.output(cpu, v*16)
	case 3:
		for range v {
			s.output(cpu, v)
		}
	case 4: // too large for a record: overwrites the ring
		if v%8 == 7 {
			s.damaged = true
			s.output(cpu, 65509+v*200)
		}
	case 5:
		if len(running) < 4 {
			s.running[cpu] = append(running, &program{Program: s.k.Begin(cpu)})
		}
	case 6:
		if n := len(running); n > 0 {
			s.advance(cpu, running[n-1], v)
		}
	case 7:
		if n := len(running); n > 0 {
			running[n-1].End()
			s.running[cpu] = running[:n-1]
		}
	case 8:
		s.check(s.r.Pause())
	case 9:
		s.check(s.r.Resume())
	case 10:
		if s.stream != nil { // else nobody is there to answer
			s.check(s.stream.Flush())
			s.flushes++
		}
	case 11:
		s.k.Advance(time.Duration(v << (v % 24)))
	case 12:
		s.read(v)
	case 13:
		s.read(255)
	case 14:
		s.open(v)
	case 15:
		if s.stream != nil && s.idle() {
			if v%4 != 3 { // else it drops its records
				s.rest()
			}
			s.check(s.stream.Close())
			s.stream = nil
		}
	}
}

func (s *script) check(err error) {
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) idle() bool { return len(s.running[0])+len(s.running[1]) == 0 }

func (s *script) output(cpu, size int) {
	if len(s.running[cpu]) < 4 {
		s.refused(s.k.Output(cpu, s.payload(cpu, size)))
	}
}

func (s *script) refused(err error) {
	if err != nil && err != syscall.ENOSPC && err != syscall.ENOENT && err != syscall.EBUSY {
		s.t.Fatal(err)
	}
}

// advance does the next step of an output.
func (s *script) advance(cpu int, p *program, v int) {
	switch p.stage {
	case 0:
		p.Prepare(s.payload(cpu, v))
	case 1:
		if err := p.Reserve(); err != nil {
			s.refused(err)
			p.stage = 0
			return
		}
	case 2:
		p.Copy()
	case 3:
		p.Publish()
	}
	p.stage = (p.stage + 1) % 4
}

// open makes a stream. Exact mode waits for programs.
func (s *script) open(v int) {
	if s.stream != nil {
		return
	}
	o := perfbuf.StreamOptions{Order: perfbuf.Slack(time.Duration(v << (v % 24)))}
	if v%16 == 15 && s.idle() {
		o.Order = perfbuf.Order{}
	}
	if v%8 == 3 {
		o.Spill.Bytes = -1
	}
	o.DropLate = v%8 == 5
	if v%2 == 1 {
		o.FlushEvery = time.Millisecond << (v % 16)
	}
	stream, err := s.r.Stream(o)
	s.check(err)
	s.stream, s.last, s.watermark = stream, 0, 0
}

// read reads up to so many events; 255 is all.
func (s *script) read(limit int) {
	left := limit
	f := func(ev perfbuf.Event) error {
		s.add(ev)
		if left--; left <= 0 && limit < 255 {
			return perfbuf.ErrStop
		}
		return nil
	}
	with := func(stream *perfbuf.Stream, err error) {
		s.check(err)
		if limit%3 == 2 {
			s.check(stream.ForEachBatch(func(b *perfbuf.Batch) error {
				for ev := range b.Events() {
					if err := f(ev); err != nil {
						return err
					}
				}
				return nil
			}))
		} else {
			s.check(stream.ForEach(f))
		}
		s.check(stream.Close())
	}
	switch {
	case s.stream != nil:
		s.check(s.stream.ForEach(f))
	case limit%3 == 1:
		for _, ring := range s.r.Rings() {
			with(ring.Stream())
		}
	default:
		with(s.r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()}))
	}
}

func (s *script) rest() {
	s.check(s.stream.Drain(context.Background(), func(ev perfbuf.Event) error { s.add(ev); return nil }))
}

// add takes an event into account.
func (s *script) add(ev perfbuf.Event) {
	t := s.t
	if s.stream != nil {
		s.complete(ev)
	}
	if s.stream != nil && ev.Kind() != perfbuf.KindFlushed {
		if ev.Late() != (ev.Time() < s.last) {
			t.Fatalf("%v at %d after %d, late: %v", ev.Kind(), ev.Time(), s.last, ev.Late())
		}
		s.last = max(s.last, ev.Time())
	}
	switch ev.Kind() {
	case perfbuf.KindFlushed:
		if s.flushes == 0 && (s.stream == nil || s.stream.Options().FlushEvery == 0) {
			t.Fatal("a marker without a Flush")
		}
	case perfbuf.KindLost:
		s.lost[ev.CPU()] += ev.Lost()
	case perfbuf.KindSample:
		s.samples[ev.CPU()]++
		s.sample(ev)
	case perfbuf.KindCorrupt:
		var err *perfbuf.CorruptError
		if !errors.As(ev.Err(), &err) || err.CPU != ev.CPU() || err.Skipped == 0 || !s.damaged {
			t.Fatal(ev.Err())
		}
	}
}

// complete holds an event of a stream against the watermark.
func (s *script) complete(ev perfbuf.Event) {
	w := s.stream.Watermark()
	switch {
	case w < s.watermark || w > s.k.Now():
		s.t.Fatalf("the watermark is %d after %d, at %d", w, s.watermark, s.k.Now())
	case ev.Kind() == perfbuf.KindFlushed && ev.Time() < max(w, s.last):
		s.t.Fatalf("a marker of %d, where the watermark is %d", ev.Time(), w)
	case ev.Kind() == perfbuf.KindSample && ev.Time() <= w && s.stream.Options().Order == perfbuf.Order{}:
		s.t.Fatalf("a sample of %d, where the watermark was %d", ev.Time(), w)
	}
	s.watermark = w
}

// sample requires that it is as it was output, and comes once.
func (s *script) sample(ev perfbuf.Event) {
	if s.damaged {
		return
	}
	id, err := ringtest.Check(ev.Bytes())
	if err != nil || id == 0 || id > s.ids[ev.CPU()] || s.seen[ev.CPU()][id] {
		s.t.Fatalf("output %d of %d, seen before: %v: %v", id, s.ids[ev.CPU()], s.seen[ev.CPU()][id], err)
	}
	s.seen[ev.CPU()][id] = true
}

// finish ends programs, reads the remaining events, and checks the counts.
func (s *script) finish() {
	t := s.t
	for cpu := range s.running {
		for n := len(s.running[cpu]); n > 0; n-- {
			p := s.running[cpu][n-1]
			for p.stage != 0 {
				s.advance(cpu, p, 0)
			}
			p.End()
		}
		s.running[cpu] = nil
	}
	switch {
	case s.unread:
	case s.stream != nil:
		s.rest()
	default:
		s.read(255)
	}
	s.check(s.r.Close())
	stats := s.r.Stats()
	for cpu, ring := range stats.Rings {
		c := s.k.Counts(cpu)
		if c.Attempted != s.ids[cpu] || c.Attempted != c.Written+c.Lost+c.Refused {
			t.Fatalf("CPU %d: %d outputs: %+v", cpu, s.ids[cpu], c)
		}
		if ring.Lost != c.Lost || !s.damaged && s.lost[cpu] > c.Lost {
			t.Fatalf("CPU %d: %+v; reported were %d, counted %d", cpu, c, s.lost[cpu], ring.Lost)
		}
		if ring.Samples != s.samples[cpu] || !s.damaged && ring.Samples+ring.Dropped != c.Written {
			t.Fatalf("CPU %d: %+v; delivered were %d: %+v", cpu, c, s.samples[cpu], ring)
		}
	}
}
