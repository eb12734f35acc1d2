package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// Live is a recording that somebody else is still making, such as another host. Its records come in
// pieces, by [Live.Feed]. A [perfbuf.Reader] of its own reads each event, as of a file: see
// [Live.Open]. [perfbuf.Merge] puts those of several live recordings, and of files with
// [ReplayOptions].WallClock, in the order of their wall-clock times.
//
// The stream delivers an event when no live recording can still get an older one, by the watermarks
// that come with the records. So one of which nothing comes holds up the others, until [Live.Hold]
// says otherwise: how long to wait is its user's decision. What comes too late for its place is
// marked as [perfbuf.Event.Late].
//
// Methods do not block, and may be called from anywhere at any time.
type Live struct {
	name string

	mu      sync.Mutex
	rec     *recording // what the head says; nil before
	members []*replay
	free    bool // others do not wait for it
	ended   bool
	through uint64 // of the latest Round
	floor   uint64 // nothing of it that comes has an earlier wall-clock time, unless it is late
	done    uint64 // what the stream had delivered when it last asked
	queued  int
	errors  []since
}

// NewLive makes a live recording, without events until [Live.Head]. Errors name it.
func NewLive(name string) *Live { return &Live{name: name} }

// ErrOtherEvents means that a recording goes on with other events, or with another BTF of theirs:
// make another Live for it.
var ErrOtherEvents = errors.New("the recording goes on with other events than before")

// errNotYet is the error of a read of a live recording that has nothing to read now.
var errNotYet = errors.New("nothing has come")

// Head takes what [Recorder.Head] has returned, or the beginning of a recording in the pipe format,
// before any records. Later heads must say the same of the events, or the error is
// [ErrOtherEvents]. Other errors are those of [Open] for such a file.
func (l *Live) Head(b []byte) error {
	if !bytes.HasPrefix(b, []byte(magic)) {
		b = append(native.AppendUint64([]byte(magic), pipeHeader), b...)
	}
	rec, err := parse(l.name, bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	rec.blocks = blocks{}
	if len(rec.events()) == 0 {
		return fmt.Errorf("perfdata: %s: its head has no event that can be replayed", l.name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec == nil {
		l.rec = rec
	}
	same := func(a, b EventInfo) bool { return a.Name == b.Name && bytes.Equal(a.BTF, b.BTF) }
	if !slices.EqualFunc(l.rec.events(), rec.events(), same) {
		return fmt.Errorf("perfdata: %s: %w", l.name, ErrOtherEvents)
	}
	return nil
}

// Events returns the events of the recording: none before [Live.Head].
func (l *Live) Events() []EventInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec == nil {
		return nil
	}
	return l.rec.events()
}

// Open opens a reader of an event. It reads what is fed from then on, on one ring of 128 KiB, whose
// CPU is -1; events have their CPUs. Options are as for [ReplayOptions].Reader, except that CPUs,
// RingBytes and Wakeup have no effect. A reader's Close does not end the recording, nor does the
// recording's end close the reader.
func (l *Live) Open(event string, o perfbuf.Options) (*perfbuf.Reader, error) {
	l.mu.Lock()
	var rec recording
	if l.rec != nil {
		rec = *l.rec
	}
	l.mu.Unlock()
	if err := rec.choose(event); err != nil {
		return nil, err
	}
	ro := ReplayOptions{WallClock: true, Reader: o}
	if err := ro.complete(&rec); err != nil {
		return nil, err
	}
	ro.Reader.CPUs, ro.Reader.RingBytes, ro.Reader.Wakeup = nil, leastLive, perfbuf.Wakeup{Events: 1}
	k := &replay{recording: &rec, o: ro, poller: poller{interrupts: make(chan struct{}, 1)}, live: l, latest: map[int]uint64{},
		cpus: map[int]uint64{-1: math.MaxUint64}}
	r, err := perfbuf.OpenSource(k, ro.Reader)
	if err == nil {
		l.mu.Lock()
		l.members = append(l.members, k)
		l.mu.Unlock()
	}
	return r, err
}

// Feed takes whole records, after the head, and keeps them: b must not change afterwards. Those of
// events that no reader is open for are dropped, and so is what [Open] would not replay. An error
// says which record is damaged, and then nothing of b is taken. After a clock was set back, events
// are placed where it was before until it gets there, and are so much more wrong.
func (l *Live) Feed(b []byte, r Round) error {
	l.mu.Lock()
	defer l.unlock()
	if l.rec == nil {
		return fmt.Errorf("perfdata: %s: records have come before the head", l.name)
	}
	came := make([][]queued, len(l.members))
	for at := 0; at < len(b); {
		left, size := b[at:], 0
		if len(left) >= 8 {
			size = int(native.Uint16(left[6:]))
		}
		if size < 8 || size%8 != 0 || size > len(left) {
			return fmt.Errorf("perfdata: %s: at offset %d is a record of %d bytes, of %d", l.name, at, size, len(left))
		}
		typ := native.Uint32(left)
		if typ == typeCompressed || typ == typeCompressed2 {
			return fmt.Errorf("perfdata: %s: its records are compressed: record without compression", l.name)
		}
		for i, k := range l.members {
			e, ok := k.entry(left[:size:size])
			if !ok || e.time > mostTime {
				return fmt.Errorf("perfdata: %s: at offset %d is a record of type %d whose fields cannot be", l.name, at, typ)
			}
			if e.kind != other {
				came[i] = append(came[i], queued{e, r.Received})
			}
		}
		at += size
	}
	through, floor := r.Through, r.wall(r.Through)
	for i, k := range l.members {
		for j := range came[i] { // none of an earlier time follows, even if the round does not say so yet
			through = max(through, came[i][j].time)
			l.place(k, &came[i][j].entry, r)
			floor = max(floor, came[i][j].time)
		}
		k.queue = append(k.queue, came[i]...)
		l.queued += len(came[i])
	}
	l.floor = max(l.floor, min(floor, r.latest()))
	l.through = through
	return nil
}

// queued is an event that waits for its turn.
type queued struct {
	entry
	received time.Time
}

// Gap is an event of the recording between those that were fed before and those that are fed later.
// Its times are those of the wall's clock; Time is 0 where the recording has got to. It fails if no
// reader is open.
func (l *Live) Gap(g Gap, received time.Time) error {
	l.mu.Lock()
	defer l.unlock()
	if len(l.members) == 0 {
		return fmt.Errorf("perfdata: %s: a gap, and no reader that is open", l.name)
	}
	if g.Time == 0 {
		g.Time = l.floor
	}
	l.floor = max(l.floor, g.Time)
	k := l.members[0]
	k.queue = append(k.queue, queued{g.entry(), received})
	l.queued++
	return nil
}

// Hold says whether the stream waits for the recording, as it does at first: until what others have
// sent is not later than its own watermark. One that has fallen behind what the stream has
// delivered is not waited for before it has caught up.
func (l *Live) Hold(hold bool) {
	l.mu.Lock()
	defer l.unlock()
	l.free = !hold
}

// End says that nothing more is fed. When all recordings of a stream have ended, and all is
// delivered, it ends with [io.EOF].
func (l *Live) End() {
	l.mu.Lock()
	defer l.unlock()
	l.ended = true
}

// Through returns the wall-clock time up to which the recording has come, and whether others wait
// for it: not if it has fallen behind. It is 0 before the first [Live.Feed].
func (l *Live) Through() (at uint64, hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.floor, !l.free && !l.ended && l.floor >= l.done
}

// Backlog returns how many events wait for their turn, the earliest time of those that are next,
// and when that was received.
func (l *Live) Backlog() (events int, next uint64, received time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.members {
		if len(k.queue) > 0 && (next == 0 || k.queue[0].time < next) {
			next, received = k.queue[0].time, k.queue[0].received
		}
	}
	return l.queued, next, received
}

// drop forgets a reader that was closed.
func (l *Live) drop(k *replay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = slices.DeleteFunc(slices.Clone(l.members), func(m *replay) bool { return m == k })
	l.queued -= len(k.queue)
	k.queue = nil
}

// unlock unlocks, and wakes who waits for what has changed.
func (l *Live) unlock() {
	members := l.members
	l.mu.Unlock()
	for _, k := range members {
		select {
		case k.session.Load().more <- struct{}{}:
		default:
		}
	}
}

// holds returns the time before which no event comes that others would have to wait for. What is up
// to done has been delivered.
func (l *Live) holds(done uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = done
	if l.free || l.ended || l.floor < done {
		return math.MaxUint64
	}
	return l.floor
}

// readLive is read of a live recording. What it has returned stays in the queue until the next
// call.
func (k *replay) readLive() error {
	l := k.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.taken {
		k.queue[0] = queued{} // for the garbage collector
		k.queue = k.queue[1:]
		l.queued--
		k.taken = false
	}
	switch {
	case len(k.queue) > 0:
		k.next, k.taken, k.pending = k.queue[0].entry, true, true
		return nil
	case l.ended:
		return io.EOF
	}
	return errNotYet
}
