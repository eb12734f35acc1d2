// Package ringbuf is the real kernel's side of BPF ring buffers (BPF_MAP_TYPE_RINGBUF): it maps them, alone or as the shards in an
// array or hash of maps, finds new shards, waits for wakeups, and reads what programs count of their losses.
//
// libbpf's ring_buffer does not help: it hands records to a callback and exposes neither the data nor the positions (ring__consumer_pos
// and the like came with libbpf 1.3, still without the data). The memory is mapped here as ring_buffer__add does it.
//
// # Wakeups
//
// All of it from kernel/bpf/ringbuf.c. bpf_ringbuf_commit, for a discarded record too, clears the record's busy bit by an xchg, which is a full
// barrier. Then it loads consumer_pos, and wakes
//   - if consumer_pos is the position of that very record, that is, if the reader has come to it, unless with BPF_RB_NO_WAKEUP;
//   - always with BPF_RB_FORCE_WAKEUP.
//
// So a reader that has stored consumer_pos, and afterwards finds nothing there or a record that is busy, is woken when there is one or when
// it is committed: either the commit sees the position, or the reader sees the commit. Both take the look after the store.
//
// Nobody is woken
//   - by the records behind a busy one, until that is committed: the wakeup is then for all of them;
//   - while consumer_pos lies before what has been read, as in an ordered stream, which keeps it at the first event that it has not delivered:
//     no commit finds the reader waiting for its record. Such a reader looks by itself while it holds events. Behind discarded records alone it
//     stores the position at once;
//   - by programs that say BPF_RB_NO_WAKEUP.
//
// The wakeup is an irq_work, which wakes the map's wait queue (bpf_ringbuf_notify); from there it goes to all epoll descriptors that the
// map is in, one in another, and to Go's poller. That is edge-triggered: it asks the map's poll once for each wakeup (ringbuf_map_poll_kern:
// readable if consumer_pos is not producer_pos), and not again while something stays unread. So unread records, such as busy ones, make no reader spin. A wakeup whose
// records have been read meanwhile may be dropped.
package ringbuf
