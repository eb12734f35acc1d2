package walk

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// ErrBusy is perfbuf.ErrBusy.
var ErrBusy = errors.New("perfbuf: the ring is already being read")

var errHeld = fmt.Errorf("%w: a Stream holds all rings: read through it, or close it first", ErrBusy)

// Ring is a ring and its reading: which kind of stream holds it, and how far that has come.
type Ring struct {
	Raw   *raw.Ring
	User  any // the user's own, of the same ring
	rings *Rings
	index int           // among rings
	owner atomic.Uint32 // one of idle, alone, held

	asked    atomic.Pointer[Flushes] // of the stream that holds the ring alone; nil: there is none
	failures Flushes                 // that passes over this ring alone answer

	// For a pass over all rings.
	target uint64 // head at its beginning
	looked uint64 // head at its latest look
	used   uint64 // bytes that it held then
	grown  uint64 // bytes that had come since the look before

	// For the owner only.
	left uint64 // the tail as it was left, or was found
	last uint64 // time of the latest sample read, unordered

	Counts Counts
}

const (
	idle  uint32 = iota
	alone        // by a stream of this ring
	held         // by a stream of all rings
)

// Tail is the published tail. It counts if that is not where the ring's reader has left it, for which see Leave: another reads the same BPF
// ring buffer.
func (r *Ring) Tail() uint64 {
	tail := r.Raw.Tail()
	if tail != r.left {
		r.Counts.Shared.Add(1)
		r.left = tail
	}
	return tail
}

// Leave notes where the ring's reader has left the tail.
func (r *Ring) Leave() { r.left = r.Raw.Tail() }

// Claim makes a stream the ring's only reader, until Disclaim. flushes are the stream's calls, nil if it has none.
// It returns an error that wraps ErrBusy.
func (r *Ring) Claim(flushes *Flushes) error {
	if err := r.claim(alone); err != nil {
		return err
	}
	r.asked.Store(flushes)
	return nil
}

func (r *Ring) claim(as uint32) error {
	if r.owner.CompareAndSwap(idle, as) {
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
	r.owner.Store(idle)
}

// Index is the ring's place among its reader's.
func (r *Ring) Index() int { return r.index }

// Used is how many bytes lie between tail and head, both of which may move meanwhile: a tail that
// has passed the head it is compared with would make an empty ring look full. It is never more than
// the ring's size, whatever is in the memory shared with the kernel, and 0 for a head that went back,
// which no pass reads up to.
func (r *Ring) Used() uint64 {
	for {
		tail := r.Raw.Tail()
		head := r.Raw.Head()
		if r.Raw.Tail() == tail {
			return min(uint64(max(int64(head-tail), 0)), r.Raw.Size())
		}
	}
}

// Unread is Used, but 0 if the first record is busy. A pass would find nothing then, and a loop of passes and waits would spin. The
// kernel wakes readers when that very record is committed: it finds a consumer_pos that has caught up with it
// (bpf_ringbuf_commit, kernel/bpf/ringbuf.c), as the tail is stored before this looks at the record. Programs that commit with
// BPF_RB_NO_WAKEUP wake nobody, here as otherwise.
func (r *Ring) Unread() uint64 {
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

// Look is how many bytes the ring held when a pass over all rings last looked, and how many had come since the look
// before.
func (r *Ring) Look() (used, grown int) { return int(r.used), int(min(r.grown, 1<<31)) }
