package stream

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// ErrBusy is perfbuf.ErrBusy.
var ErrBusy = errors.New("perfbuf: the ring is already being read")

var errHeld = fmt.Errorf("%w: a Stream holds all rings: read through it, or close it first", ErrBusy)

// Ring is a ring with the state of its reading: which kind of stream holds it, and how far it has
// read.
type Ring struct {
	Raw   *raw.Ring
	left  uint64 // the tail as the owner left or last found it
	last  uint64 // time of the latest sample that the owner has read, unordered
	rings *Rings
	index int           // among rings
	owner atomic.Uint32 // one of unclaimed, alone, held

	asked    atomic.Pointer[Flushes] // calls of the stream that holds only this ring
	failures Flushes                 // answered by passes over this ring alone

	// For a pass over all rings.
	target uint64 // head at its beginning
	looked uint64 // head at the latest look
	used   uint64 // unread bytes at that look
	grown  uint64 // bytes added since the look before

	Counts RingCounts
}

const (
	unclaimed uint32 = iota
	alone            // by a stream of this ring
	held             // by a stream of all rings
)

// tail returns the published tail. If it is not where the ring's reader has left it (see Leave),
// another reader shares this BPF ring buffer, and Tail counts that.
func (r *Ring) tail() uint64 {
	tail := r.Raw.Tail()
	if tail != r.left {
		r.Counts.Shared.Add(1)
		r.left = tail
	}
	return tail
}

// leave records the present tail as the one that the ring's reader has left.
func (r *Ring) leave() { r.left = r.Raw.Tail() }

// Claim makes a stream the ring's only reader, until Disclaim. flushes are the stream's calls, nil
// if it has none. The error wraps ErrBusy.
func (r *Ring) Claim(flushes *Flushes) error {
	if err := r.claim(alone); err != nil {
		return err
	}
	r.asked.Store(flushes)
	return nil
}

func (r *Ring) claim(as uint32) error {
	if r.owner.CompareAndSwap(unclaimed, as) {
		return nil
	}
	if r.owner.Load() == held {
		return errHeld
	}
	whose := fmt.Sprintf("CPU %d", r.Raw.CPU())
	if r.Raw.CPU() < 0 {
		whose = fmt.Sprintf("ring buffer %d", r.index)
	}
	return fmt.Errorf("%w: %s: a Stream holds this ring: read through it, or close it first", ErrBusy, whose)
}

// Disclaim undoes Claim.
func (r *Ring) Disclaim() {
	r.asked.Store(nil)
	r.owner.Store(unclaimed)
}

// Index returns the ring's index among its reader's rings.
func (r *Ring) Index() int { return r.index }

// Used returns the bytes between tail and head. Both may move during the call, and a tail beyond
// the loaded head would make an empty ring look full, so Used retries. The result never exceeds the
// ring's size, even if the memory shared with the kernel is damaged. It is 0 for a head that went
// back, as no pass reads up to that.
func (r *Ring) Used() uint64 {
	for {
		tail := r.Raw.Tail()
		head := r.Raw.Head()
		if r.Raw.Tail() == tail {
			return min(uint64(max(int64(head-tail), 0)), r.Raw.Size())
		}
	}
}

// unread is Used, but 0 if the first record is busy: a pass would find nothing, and a loop of
// passes and waits would spin. Committing that record wakes the reader, because the kernel finds
// that consumer_pos has caught up with it (bpf_ringbuf_commit, kernel/bpf/ringbuf.c). This relies
// on the tail being stored before Unread looks at the record. As always, programs that commit with
// BPF_RB_NO_WAKEUP wake nobody.
func (r *Ring) unread() uint64 {
	for {
		tail := r.Raw.Tail()
		head := r.Raw.Head()
		busy := r.Raw.Busy(tail, head)
		if r.Raw.Tail() == tail {
			if busy {
				return 0
			}
			return min(uint64(max(int64(head-tail), 0)), r.Raw.Size())
		}
	}
}

// Look returns how many bytes the ring held at the latest look of a pass over all rings, and how
// many had come since the look before.
func (r *Ring) Look() (used, grown int) { return int(r.used), int(min(r.grown, 1<<31)) }
