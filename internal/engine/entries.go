package engine

import (
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/kernel"
)

// Entries are the map's entries for the rings. A change affects programs that look up an entry
// after it. Methods may be called concurrently.
type Entries struct {
	reader *Reader

	// Burst is how many wakeups in a row an armed ring may cause. It must not change while there
	// are readers.
	Burst int

	mu     sync.Mutex // held while entries change
	paused bool
	closed bool
	armed  []atomic.Bool // the ring's entry is its doorbell, or will be when not paused
	spent  []budget      // on wakeups, by ring; only the ring's reader uses its budget

	arms, disarms atomic.Uint64
	failure       atomic.Pointer[error] // why a ring could not be armed or disarmed
	torn          atomic.Pointer[error] // why the latest Pause or Resume missed an entry
}

// init makes room for the entries of so many rings.
func (e *Entries) init(r *Reader, room int) {
	e.reader, e.Burst, e.armed, e.spent = r, burst, make([]atomic.Bool, room), make([]budget, room)
}

// Arm makes each output to a ring wake the reader, and reports success. The caller must look at the
// ring's head afterwards: see [doorbell].
func (e *Entries) Arm(ring int) bool { return e.arm(ring, true) }

// Disarm makes outputs to a ring wake the reader only at the watermark.
func (e *Entries) Disarm(ring int) { e.arm(ring, false) }

// flowed notes that a ring's reader has found so many bytes. It disarms a ring that has used up its
// budget. Callers call it for every event, so it is quick if the ring is not armed.
func (e *Entries) flowed(ring int, bytes uint64) {
	if e.armed[ring].Load() && !e.spent[ring].spend(bytes, e.Burst) {
		e.Disarm(ring)
	}
}

func (e *Entries) arm(ring int, on bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.armed[ring].Load() == on || e.closed {
		return true
	}
	if !on {
		defer e.reader.disarmed()
	}
	if !e.paused {
		if err := e.reader.Parts.Set(ring, plainOrBell(on)); err != nil {
			e.failure.Store(&err)
			return false
		}
	}
	e.armed[ring].Store(on)
	if on {
		e.arms.Add(1)
	} else {
		e.disarms.Add(1)
	}
	return true
}

func plainOrBell(armed bool) kernel.Entry {
	if armed {
		return kernel.Bell
	}
	return kernel.Plain
}

// Armed reports whether each output to a ring wakes the reader.
func (e *Entries) Armed(ring int) bool { return e.armed[ring].Load() }

// Counts returns how often rings were armed and disarmed.
func (e *Entries) Counts() (arms, disarms uint64) { return e.arms.Load(), e.disarms.Load() }

// Fail notes why rings cannot be armed at all.
func (e *Entries) Fail(err error) { e.failure.Store(&err) }

// Err returns why an entry could not be changed, nil if all could.
func (e *Entries) Err() error {
	for _, p := range []*atomic.Pointer[error]{&e.failure, &e.torn} {
		if err := p.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// Pause empties the entries. If some could not be emptied, the next call retries.
func (e *Entries) Pause() error { return e.pause(true) }

// Resume restores the entries, and retries like Pause.
func (e *Entries) Resume() error { return e.pause(false) }

func (e *Entries) pause(on bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.paused == on && e.torn.Load() == nil {
		return nil
	}
	var failed error
	for i := range e.reader.Rings.Len() {
		to := kernel.Empty
		if !on {
			to = plainOrBell(e.armed[i].Load())
		}
		if err := e.reader.Parts.Set(i, to); err != nil && failed == nil {
			failed = err
		}
	}
	e.paused = on
	if failed == nil {
		e.torn.Store(nil)
		return nil
	}
	// The timer covers the rings from now on. While paused, arming sets no entry, and entries still
	// in the map might ring no bell.
	e.torn.Store(&failed)
	return failed
}

// renew sets a ring's entry again, to its new perf events.
func (e *Entries) renew(ring int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.reader.disarmed()
	if e.paused || e.closed {
		return nil
	}
	return e.reader.Parts.Set(ring, plainOrBell(e.armed[ring].Load()))
}

// close makes all later calls leave the entries alone.
func (e *Entries) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}
