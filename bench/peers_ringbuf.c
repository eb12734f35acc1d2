#include "peers.h"
#include <sys/mman.h>
#include <unistd.h>

int ringbuf_map(struct peer *p, int map_fd, size_t size)
{
	size_t page = getpagesize();

	p->size = size;
	p->consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	p->producer = mmap(NULL, page + 2 * size, PROT_READ, MAP_SHARED, map_fd, page);
	return p->consumer == MAP_FAILED || p->producer == MAP_FAILED ? -1 : 0;
}

void ringbuf_unmap(struct peer *p)
{
	size_t page = getpagesize();

	if (p->consumer && p->consumer != MAP_FAILED)
		munmap(p->consumer, page);
	if (p->producer && p->producer != MAP_FAILED)
		munmap(p->producer, page + 2 * p->size);
}

void ringbuf_walk(struct peer *p)
{
	unsigned char *data = p->producer + getpagesize();
	unsigned long *consumer = (void *)p->consumer, *producer = (void *)p->producer;
	unsigned long mask = p->size - 1, tail = *consumer, head = __atomic_load_n(producer, __ATOMIC_ACQUIRE);
	uint64_t events = 0, sum = 0;

	while (tail != head) {
		uint32_t *header = (void *)(data + (tail & mask));
		uint32_t len = __atomic_load_n(header, __ATOMIC_ACQUIRE);

		if (len & BPF_RINGBUF_BUSY_BIT)
			break;
		if (!(len & BPF_RINGBUF_DISCARD_BIT)) {
			sum += *(uint64_t *)(header + 2);
			events++;
		}
		tail += BPF_RINGBUF_HDR_SZ + (((len & ~BPF_RINGBUF_DISCARD_BIT) + 7) & ~7u);
	}
	p->sum += sum;
	p->events += events;
	__atomic_store_n(consumer, tail, __ATOMIC_RELEASE);
}
