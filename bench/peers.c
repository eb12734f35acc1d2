#include "peers.h"
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TIME_OFFSET 16 // of a payload's time: internal/workload

static inline void event(struct peer *p, const void *data)
{
	uint64_t word;

	memcpy(&word, data, sizeof(word));
	p->sum += word;
	if (!p->looping) {
		p->events++;
		return;
	}
	if (p->delays) {
		struct timespec ts;
		uint64_t delay;

		memcpy(&word, (const char *)data + TIME_OFFSET, sizeof(word));
		clock_gettime(CLOCK_MONOTONIC, &ts);
		delay = ts.tv_sec * 1000000000ull + ts.tv_nsec - word;
		if (p->events < p->most)
			p->delays[p->events] = delay < UINT32_MAX ? delay : UINT32_MAX;
		if (word < p->latest)
			__atomic_fetch_add(&p->overtaken, 1, __ATOMIC_SEQ_CST);
		else
			p->latest = word;
	}
	__atomic_fetch_add(&p->events, 1, __ATOMIC_SEQ_CST); // as in Go's loops
}

static void on_sample(void *ctx, int cpu, void *data, __u32 size)
{
	(void)cpu, (void)size;
	event(ctx, data);
}

static int on_ringbuf_sample(void *ctx, void *data, size_t size)
{
	(void)size;
	event(ctx, data);
	return 0;
}

static void on_lost(void *ctx, int cpu, __u64 count)
{
	struct peer *p = ctx;

	(void)cpu;
	__atomic_fetch_add(&p->lost, count, __ATOMIC_SEQ_CST);
}

static struct peer *new_peer(size_t delays)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->most = delays;
	if (delays && !(p->delays = calloc(delays, sizeof(*p->delays)))) {
		free(p);
		return NULL;
	}
	return p;
}

static struct peer *failed(struct peer *p)
{
	int err = errno;

	peer_close(p);
	errno = err;
	return NULL;
}

struct peer *peer_open(int map_fd, int pages, size_t delays)
{
	struct peer *p = new_peer(delays);

	if (!p)
		return NULL;
	p->pb = perf_buffer__new(map_fd, pages, on_sample, on_lost, p, NULL);
	return p->pb ? p : failed(p);
}

struct peer *peer_open_ringbuf(int map_fd, size_t size, size_t delays)
{
	struct peer *p = new_peer(delays);

	if (!p)
		return NULL;
	p->rb = ring_buffer__new(map_fd, on_ringbuf_sample, p, NULL);
	if (!p->rb || ringbuf_map(p, map_fd, size))
		return failed(p);
	return p;
}

void peer_close(struct peer *p)
{
	perf_buffer__free(p->pb);
	ring_buffer__free(p->rb);
	ringbuf_unmap(p);
	free(p->delays);
	free(p);
}

int peer_consume(struct peer *p)
{
	int err = p->rb ? ring_buffer__consume(p->rb) : perf_buffer__consume(p->pb);

	return err < 0 ? err : 0;
}

static int walk(struct peer *p, struct perf_event_mmap_page *page, size_t size)
{
	unsigned char *data = (unsigned char *)page + page->data_offset;
	uint64_t mask = size - 1, tail = page->data_tail;
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t events = 0, sum = 0;

	while (tail != head) {
		// The header is aligned to 8 bytes, so it never wraps.
		struct perf_event_header *h = (void *)(data + (tail & mask));

		if (h->type == PERF_RECORD_SAMPLE) {
			// The payload lies behind the header and raw_size, aligned to 4 bytes: its first word may wrap.
			uint32_t low = *(uint32_t *)(data + ((tail + 12) & mask));
			uint32_t high = *(uint32_t *)(data + ((tail + 16) & mask));

			sum += (uint64_t)high << 32 | low;
			events++;
		} else {
			p->lost++;
		}
		tail += h->size;
	}
	p->sum += sum;
	p->events += events;
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
	return 0;
}

int peer_walk(struct peer *p)
{
	if (p->rb) {
		ringbuf_walk(p);
		return 0;
	}
	int n = perf_buffer__buffer_cnt(p->pb);

	for (int i = 0; i < n; i++) {
		void *page;
		size_t size;
		int err = perf_buffer__buffer(p->pb, i, &page, &size);

		if (err)
			return err;
		walk(p, page, size);
	}
	return 0;
}

int peer_poll(struct peer *p)
{
	while (!__atomic_load_n(&p->stop, __ATOMIC_SEQ_CST)) {
		int err = p->rb ? ring_buffer__poll(p->rb, 100) : perf_buffer__poll(p->pb, 100);

		if (err < 0 && err != -EINTR)
			return err;
	}
	return 0;
}

void peer_stop(struct peer *p)
{
	__atomic_store_n(&p->stop, 1, __ATOMIC_SEQ_CST);
}

uint64_t peer_load(uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

void peer_trim(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
