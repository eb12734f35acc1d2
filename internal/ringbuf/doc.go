// Package ringbuf reads BPF ring buffers (BPF_MAP_TYPE_RINGBUF) from the real kernel. It maps them,
// alone or as the shards in an array or hash of maps, finds new shards, waits for wakeups, and
// reads the programs' loss counters.
//
// libbpf's ring_buffer does not help: it hands records to a callback and exposes neither the data
// nor the positions. (ring__consumer_pos and the like came with libbpf 1.3, still without the
// data.) This package maps the memory as ring_buffer__add does.
//
// # Wakeups
//
// All of this is from kernel/bpf/ringbuf.c. bpf_ringbuf_commit, which also handles discarded
// records, clears the record's busy bit by an xchg, which is a full barrier. Then it loads
// consumer_pos, and wakes the reader
//   - if consumer_pos is the position of that very record, unless with BPF_RB_NO_WAKEUP: the reader
//     has reached the record;
//   - always with BPF_RB_FORCE_WAKEUP.
//
// So a reader may store consumer_pos and then find no record, or a busy one. The commit of that
// record wakes it: either the commit sees the position, or the reader sees the commit. Both look
// after they store.
//
// Nothing wakes the reader
//   - for the records behind a busy one, until that is committed: its wakeup covers all of them;
//   - while consumer_pos lies before the records already read. An ordered stream keeps it at the
//     first event that it has not delivered, so no commit finds the reader waiting for its record.
//     Such a reader polls while it holds events. If it has only skipped discarded records, it
//     stores the position at once;
//   - for programs that pass BPF_RB_NO_WAKEUP.
//
// The wakeup is an irq_work, which wakes the map's wait queue (bpf_ringbuf_notify). From there it
// goes to all epoll descriptors that contain the map, nested ones too, and to Go's poller. That is
// edge-triggered: it asks the map's poll once for each wakeup (ringbuf_map_poll_kern: readable if
// consumer_pos is not producer_pos), and not again while records stay unread. So unread records,
// such as busy ones, make no reader spin. The kernel may drop a wakeup whose records have been read
// meanwhile.
package ringbuf
