// Readers in C: libbpf's own, and a plain loop over the rings that it has mapped.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <bpf/libbpf.h>

struct peer {
	struct perf_buffer *pb;    // NULL: rb
	struct ring_buffer *rb;
	unsigned char *consumer, *producer; // the ring buffer's pages for peer_walk: consumer_pos; producer_pos and the data twice
	size_t size;               // data bytes
	int looping;               // counters are read at the same time
	int stop;
	uint64_t events, lost, sum;
	uint32_t *delays;          // of the first `most` events, in ns; NULL if it is not timed
	size_t most;
	uint64_t latest, overtaken;
};

// Of a perf event array, or of a ring buffer of so many bytes.
struct peer *peer_open(int map_fd, int pages, size_t delays);
struct peer *peer_open_ringbuf(int map_fd, size_t size, size_t delays);
void peer_close(struct peer *p);

// Map a ring buffer for peer_walk, which calls ringbuf_walk.
int ringbuf_map(struct peer *p, int map_fd, size_t size);
void ringbuf_walk(struct peer *p);
void ringbuf_unmap(struct peer *p);

// Drain all rings once. They return 0 or a negative errno.
int peer_consume(struct peer *p);
int peer_walk(struct peer *p);

// Polls until peer_stop is called. Returns 0 or a negative errno.
int peer_poll(struct peer *p);
void peer_stop(struct peer *p);

uint64_t peer_load(uint64_t *counter);

// Gives back to the kernel what malloc keeps for later.
void peer_trim(void);
