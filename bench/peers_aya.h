// Readers by aya, which aya/src/lib.rs exports.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aya_counts { // of a loop; read while it runs
	uint64_t events, lost, overtaken;
	bool stop;        // ends the loop, within 100 ms
	uint32_t *delays; // of the first `most` events, in ns; NULL if it is not timed
	uint64_t most;
};

struct aya_peer;
struct aya_peer *aya_open(int map_fd, size_t pages); // takes the descriptor; 0 pages: a ring buffer
int64_t aya_drain(struct aya_peer *p, struct aya_counts *c);
int aya_poll(struct aya_peer *p, struct aya_counts *c);
void aya_close(struct aya_peer *p);
