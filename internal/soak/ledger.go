//go:build linux && cgo

package main

import (
	"encoding/binary"
	"fmt"

	"github.com/ringfold/ringfold/perfbuf"
)

// payloadTimeOffset is where a payload has its time.
const payloadTimeOffset = 16

// clockError is how far a kernel's clock may go back: ktime_get_mono_fast_ns says that it can,
// a little, when it is read while it is being updated.
const clockError = 10_000

// ledger checks events as they are delivered, and keeps count.
type ledger struct {
	pattern    []byte
	kernelTime bool // events have the time of the output, not that of the payload
	timed      bool // latency counts
	latency    histogram
	clock      clock

	cpus                                            map[int]*account
	events, samples, losses, lost, late, outOfOrder uint64
	corrupt                                         uint64
	last                                            uint64 // the greatest time so far
	sources                                         [256]uint64

	violations uint64
	first      []string // the first of them, in words
}

// account is what was delivered of one CPU.
type account struct {
	levels        [levels]levelAccount
	samples, lost uint64
	missing       uint64 // numbers that were passed over

	// After a number was passed over, the loss that explains it should have been delivered. It may come
	// after an event of each level, if programs that were interrupted had taken their times before it.
	// More come if the stream has asked the kernel for losses, while the ring went on.
	unexplained uint64 // events since
	since       uint64 // time of the first of them
	delay       uint64 // most events that there were
	wrong       uint64 // losses that claim to have been after since
}

type levelAccount struct{ next, samples uint64 }

func newLedger(pattern []uint64, kernelTime bool) *ledger {
	l := &ledger{kernelTime: kernelTime, timed: true, clock: newClock(), cpus: map[int]*account{}}
	for _, w := range pattern {
		l.pattern = binary.NativeEndian.AppendUint64(l.pattern, w)
	}
	return l
}

// violate notes what must not be.
func (l *ledger) violate(format string, args ...any) {
	if l.violations++; len(l.first) < 10 {
		l.first = append(l.first, fmt.Sprintf(format, args...))
	}
}

func (l *ledger) cpu(n int) *account {
	a := l.cpus[n]
	if a == nil {
		a = &account{}
		l.cpus[n] = a
	}
	return a
}

// deliver takes an event from the stream. The clock is read for each.
func (l *ledger) deliver(ev perfbuf.Event) error {
	if l.timed && ev.Kind() == perfbuf.KindSample {
		now := l.clock.now()
		l.latency.add(now - min(ev.Time(), now))
	}
	l.order(ev.CPU(), ev.Time(), ev.Late())
	switch ev.Kind() {
	case perfbuf.KindSample:
		l.sample(ev.CPU(), ev.Time(), ev.Bytes())
	case perfbuf.KindLost:
		l.loss(ev.CPU(), ev.Lost(), ev.After(), ev.Time())
	default:
		l.corrupt++
		l.violate("%v", ev.Err())
	}
	return nil
}

func (l *ledger) order(cpu int, time uint64, late bool) {
	l.events++
	if late {
		l.late++
		if time >= l.last {
			l.violate("CPU %d: an event of %d is marked late, but the greatest time before it is %d", cpu, time, l.last)
		}
	} else if time < l.last {
		l.outOfOrder++
		l.violate("CPU %d: an event comes %d ns before the one before, and is not marked late", cpu, l.last-time)
	}
	l.last = max(l.last, time)
}

func (l *ledger) loss(cpu int, lost, after, time uint64) {
	l.losses++
	l.lost += lost
	a := l.cpu(cpu)
	a.lost += lost
	if lost == 0 || after > time {
		l.violate("CPU %d: %d lost after %d and not after %d", cpu, lost, after, time)
	}
	if a.unexplained > 0 && after >= a.since {
		a.wrong++
	}
	if a.lost >= a.missing {
		a.unexplained = 0
	}
}

func (l *ledger) sample(cpu int, time uint64, b []byte) {
	l.samples++
	a := l.cpu(cpu)
	a.samples++
	p, err := decode(b, l.pattern)
	if err != nil {
		l.violate("CPU %d: %v", cpu, err)
		return
	}
	if p.cpu != cpu || p.level >= levels {
		l.violate("CPU %d: a payload says it is of CPU %d, level %d", cpu, p.cpu, p.level)
		return
	}
	if l.kernelTime && p.time > time+clockError || !l.kernelTime && p.time != time {
		l.violate("CPU %d: an event of %d has a payload of %d", cpu, time, p.time)
	}
	l.sources[p.source]++
	// Of one level, each is output before the next begins. So they come in order, late or not.
	v := &a.levels[p.level]
	if p.seq < v.next {
		l.violate("CPU %d level %d: number %d comes again, or after %d", cpu, p.level, p.seq, v.next-1)
		return
	}
	a.missing += p.seq - v.next
	v.next = p.seq + 1
	v.samples++
	if a.missing <= a.lost {
		a.unexplained = 0
		return
	}
	if a.unexplained++; a.unexplained == 1 {
		a.since = time
	}
	a.delay = max(a.delay, a.unexplained)
}

// payload is what an event says of itself.
type payload struct {
	seq        uint64 // number of the output on its CPU and level, refused ones included
	cpu, level int
	source     int
	size       int
	time       uint64
}

func mix(sum, word uint64) uint64 {
	sum = (sum + word) * 0x9E3779B97F4A7C15
	return sum ^ sum>>32
}

// decode checks every byte of a payload.
func decode(b, pattern []byte) (payload, error) {
	if len(b) < minSize {
		return payload{}, fmt.Errorf("a payload of %d bytes: too short", len(b))
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	w := word(1)
	p := payload{
		seq: word(0), time: word(2), size: int(w & 0xffff),
		cpu: int(w >> 32), level: int(w >> 24 & 0xff), source: int(w >> 16 & 0xff),
	}
	if sum := mix(mix(mix(0, p.seq), w), p.time); sum != word(3) {
		return p, fmt.Errorf("payload %+v: the checksum is %x, should be %x", p, word(3), sum)
	}
	if want := (p.size+4+7)&^7 - 4; len(b) != want {
		return p, fmt.Errorf("payload %+v has %d bytes, padding included, should have %d", p, len(b), want)
	}
	at := int(p.seq%patternSlots) * 8
	if string(b[minSize:p.size]) != string(pattern[at+minSize:at+p.size]) {
		return p, fmt.Errorf("payload %+v: wrong bytes behind the header", p)
	}
	return p, nil
}
