package raw

import "sync/atomic"

// SetOverwritten makes r a BPF ring buffer whose programs overwrite the oldest records
// (BPF_F_RB_OVERWRITE). overwritten and pending point to overwrite_pos and pending_pos of struct
// bpf_ringbuf (kernel/bpf/ringbuf.c), for as long as the Ring is used. Call it before reading any.
//
// __bpf_ringbuf_reserve, under the ring's lock, moves pending_pos over the records that are
// committed, up to the first busy one, and fails rather than overwrite that. It moves overwrite_pos
// over the records that the new one overwrites. Then it writes the new record's header, and stores
// producer_pos. So overwrite_pos <= pending_pos <= producer_pos, all three are the beginnings of
// records, and overwrite_pos is less than the ring's size below producer_pos. consumer_pos has no
// meaning.
func (r *Ring) SetOverwritten(overwritten, pending *uint64) {
	r.overwritten, r.pending = overwritten, pending
}

// Overwritten returns overwrite_pos: the records below it are overwritten, or about to be. The
// kernel stores it before the bytes that overwrite them, but with no barrier in between. So it is
// sure to cover all overwritten bytes that a copy has read only once each CPU has executed a full
// barrier since the copy, which a grace period makes it do (synchronize_rcu in kernel/rcu/tree.c).
//
// Loaded after Head, it is not older than that: both loads acquire, and the smp_store_release of
// producer_pos in __bpf_ringbuf_reserve comes after the store of overwrite_pos.
func (r *Ring) Overwritten() uint64 { return atomic.LoadUint64(r.overwritten) &^ 7 }

// Pending returns pending_pos: all records below it are committed, and their payloads are visible.
// The kernel had found their headers not busy before it stored pending_pos, and this load acquires.
// Loaded after Head, it is not older than that, as Overwritten.
func (r *Ring) Pending() uint64 { return atomic.LoadUint64(r.pending) &^ 7 }
