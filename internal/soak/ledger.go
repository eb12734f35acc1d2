//go:build linux && cgo

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// clockError is how far a kernel's clock may go back: ktime_get_mono_fast_ns says that it can,
// a little, when it is read while it is being updated.
const clockError = 10_000

// ledger checks events as they are delivered, and keeps count. Where each ring has a goroutine that
// reads it, each of these touches the account of its CPU and nothing else: that is take. All else
// is for one goroutine.
type ledger struct {
	kernelTime bool // events have the time of the output, not that of the payload
	timed      bool // latency counts
	clock      workload.Clock
	accounts   []account // by CPU
	changing   bool      // readers of maps other than the first come and go

	ordered    bool          // one ordered stream delivers all events
	last       uint64        // the greatest time in it so far
	watermark  func() uint64 // up to when it is proven to be complete; nil: unknown
	outOfOrder uint64
	markers    markers

	// Now and then the consumer interrupts reading: it stops the pass, or closes the reader.
	rnd       *rand.Rand
	countdown int
	close     func() error // if not nil: what to do next

	mu         sync.Mutex
	violations uint64
	first      []string // the first of them, in words
}

// account holds one CPU's deliveries since the accounts were last settled.
type account struct {
	levels [levels]levelAccount
	tally
	missing uint64 // numbers that were passed over
	latency quantile.Histogram
	sources [8]uint64
	maps    [len(mapNames)]ofMap

	// After a number was passed over, the loss that explains it should have been delivered. It may
	// come after an event of each level, if programs that were interrupted had taken their times
	// before it. More come if the stream has asked the kernel for losses, while the ring went on.
	unexplained uint64 // events since
	since       uint64 // time of the first of them
	delay       uint64 // most events that there were
	wrong       uint64 // losses that claim to have been after since
}

type tally struct{ events, samples, losses, lost, late, corrupt uint64 }

func (t *tally) add(o *tally) {
	t.events += o.events
	t.samples += o.samples
	t.losses += o.losses
	t.lost += o.lost
	t.late += o.late
	t.corrupt += o.corrupt
}

type levelAccount struct {
	next, samples uint64
	of            [len(mapNames)]uint64 // next of each map
	fresh         bool                  // numbers skipped before the next sample went to no reader
}

func newLedger(cpus int, rnd *rand.Rand) *ledger {
	return &ledger{
		kernelTime: true, timed: true, clock: workload.NewClock(perfbuf.Now), accounts: make([]account, cpus), rnd: rnd, countdown: 1,
	}
}

// settled begins new accounts. Numbers go on.
func (l *ledger) settled() {
	for i := range l.accounts {
		a := &l.accounts[i]
		old := a.levels
		*a = account{}
		for level := range old {
			a.levels[level] = levelAccount{next: old[level].next, of: old[level].of, fresh: true}
		}
	}
}

// violate notes a violation.
func (l *ledger) violate(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.violations++; len(l.first) < 10 {
		l.first = append(l.first, fmt.Sprintf(format, args...))
	}
}

// deliver takes an event from a reader or a stream.
func (l *ledger) deliver(ev perfbuf.Event) error {
	l.take(ev)
	return l.count()
}

// count lets something else happen now and then.
func (l *ledger) count() error {
	if l.countdown--; l.countdown > 0 {
		return nil
	}
	l.countdown = 1 + l.rnd.IntN(20_000)
	if do := l.close; do != nil {
		l.close = nil
		return do()
	}
	return perfbuf.ErrStop
}

func (l *ledger) take(ev perfbuf.Event) {
	rec := perfbuf.Record{Kind: ev.Kind(), CPU: ev.CPU(), Source: ev.Source(), Time: ev.Time(), Late: ev.Late()}
	switch rec.Kind {
	case perfbuf.KindSample:
		rec.Data = ev.Bytes()
	case perfbuf.KindLost:
		rec.Lost, rec.LostAfter = ev.Lost(), ev.LostAfter()
	case perfbuf.KindCorrupt:
		rec.Err = ev.Err()
	}
	l.takeRecord(&rec)
}

// record is deliver for a copy.
func (l *ledger) record(rec perfbuf.Record) error {
	l.takeRecord(&rec)
	return l.count()
}

func (l *ledger) takeRecord(rec *perfbuf.Record) {
	a, m := l.begin(rec)
	if a == nil {
		return
	}
	switch rec.Kind {
	case perfbuf.KindSample:
		l.sample(a, m, rec)
	case perfbuf.KindLost:
		l.loss(a, m, rec)
	default:
		a.corrupt++
		l.violate("%v", rec.Err)
	}
}

// begin does what concerns all kinds, and returns the CPU's account, if there is one, and which map
// it is of.
func (l *ledger) begin(rec *perfbuf.Record) (a *account, m int) {
	cpu, time, late := rec.CPU, rec.Time, rec.Late
	if rec.Kind == perfbuf.KindFlushed {
		if cpu != -1 {
			l.violate("a marker has CPU %d", cpu)
		}
		if l.ordered {
			l.order(nil, cpu, time, late)
		}
		l.markers.come(l, time)
		return nil, 0
	}
	if cpu < 0 || cpu >= len(l.accounts) {
		l.violate("an event is of CPU %d, which cannot be", cpu)
		return nil, 0
	}
	if m = slices.Index(mapNames[:], rec.Source); m < 0 {
		l.violate("CPU %d: an event is of the reader %q", cpu, rec.Source)
		return nil, 0
	}
	a = &l.accounts[cpu]
	a.events++
	if l.timed && rec.Kind == perfbuf.KindSample {
		now := l.clock.Now()
		a.latency.Add(now - min(time, now))
	}
	switch {
	case l.ordered:
		l.order(a, cpu, time, late)
	case late:
		l.violate("CPU %d: an event is marked late, and was not ordered", cpu)
	}
	return a, m
}

func (l *ledger) order(a *account, cpu int, time uint64, late bool) {
	switch {
	case late && a == nil:
		l.violate("a marker is marked late")
	case late:
		a.late++
		if time >= l.last && (l.watermark == nil || time > l.watermark()) {
			l.violate("CPU %d: an event of %d is marked late, but the greatest time before it is %d", cpu, time, l.last)
		}
	case a != nil && l.watermark != nil && time <= l.watermark():
		l.violate("CPU %d: an event of %d comes when all up to %d is complete, and is not marked late", cpu, time, l.watermark())
	case time < l.last:
		l.outOfOrder++
		l.violate("CPU %d: an event comes %d ns before the one before, and is not marked late", cpu, l.last-time)
	}
	if a != nil || l.watermark != nil { // with a slack, an event may be older than a marker
		l.last = max(l.last, time)
	}
}

func (l *ledger) loss(a *account, m int, rec *perfbuf.Record) {
	lost, after := rec.Lost, rec.LostAfter
	a.losses++
	a.maps[m].losses++
	a.maps[m].lost += lost
	a.lost += lost
	if lost == 0 || after > rec.Time {
		l.violate("CPU %d: %d lost after %d and not after %d", rec.CPU, lost, after, rec.Time)
	}
	if a.unexplained > 0 && after >= a.since {
		a.wrong++
	}
	if a.lost >= a.missing {
		a.unexplained = 0
	}
}

func (l *ledger) sample(a *account, m int, rec *perfbuf.Record) {
	cpu, time := rec.CPU, rec.Time
	a.samples++
	a.maps[m].samples++
	p, err := workload.Check(rec.Data)
	if err == nil && !isRingBuf(m) && len(rec.Data) != workload.Padded(p.Size) {
		err = fmt.Errorf("payload %+v has %d bytes, and no padding", p, len(rec.Data))
	}
	if err != nil {
		l.violate("CPU %d: %v", cpu, err)
		return
	}
	if p.CPU != cpu {
		l.violate("CPU %d: a payload says it is of CPU %d", cpu, p.CPU)
		return
	}
	if m > 0 && int(p.Seq%uint64(len(mapNames))) != m {
		l.violate("CPU %d: number %d comes from %s", cpu, p.Seq, mapNames[m])
	}
	if kernelTime := l.kernelTime && !isRingBuf(m); kernelTime && p.Time > time+clockError || !kernelTime && p.Time != time {
		l.violate("CPU %d: an event of %d has a payload of %d", cpu, time, p.Time)
	}
	a.sources[p.Source&7]++
	// Of one level, each is output before the next begins. So they come in order, late or not.
	v := &a.levels[p.Level]
	next := v.next
	if l.changing { // of one map: others come and go
		next = v.of[m]
	}
	if p.Seq < next {
		if a.maps[m].again++; !l.changing || !isRingBuf(m) {
			l.violate("CPU %d level %d, %s: number %d comes again, or after %d", cpu, p.Level, mapNames[m], p.Seq, next-1)
			return
		}
	}
	v.of[m] = max(v.of[m], p.Seq+1)
	v.samples++
	if l.changing {
		v.next = max(v.next, p.Seq+1)
		return
	}
	if v.fresh {
		v.fresh = false
	} else {
		a.missing += p.Seq - v.next
	}
	v.next = p.Seq + 1
	if a.missing <= a.lost {
		a.unexplained = 0
		return
	}
	if a.unexplained++; a.unexplained == 1 {
		a.since = time
	}
	a.delay = max(a.delay, a.unexplained)
}
