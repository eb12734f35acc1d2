// The adapter of libbpf: perf_buffer__new, perf_buffer__new_raw for a watermark in bytes, and ring_buffer__new. One thread waits for
// stdin and for the buffers' descriptors, as a program with an event loop of its own does.
#include "wire.h"
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>

static struct settings settings;
static struct source {
	int index;
	struct perf_buffer *pb;
	struct ring_buffer *rb;
} sources[MAX_MAPS];
static bool reading;
static long slow; // us
static uint64_t allocations;

// libbpf's calls come here, too. What glibc's own functions are called.
void *__libc_malloc(size_t size), *__libc_calloc(size_t count, size_t size), *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations++;
	return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
	allocations++;
	return __libc_realloc(p, size);
}

static void event(struct source *s, int cpu, const void *data, size_t size)
{
	frame(EVENT, s->index, cpu, data, size);
	if (slow) {
		fflush(stdout);
		usleep(slow);
	}
}

static void on_sample(void *ctx, int cpu, void *data, __u32 size)
{
	event(ctx, cpu, data, size);
}

static void on_lost(void *ctx, int cpu, __u64 count)
{
	struct source *s = ctx;

	frame(LOST, s->index, cpu, &count, sizeof(count));
}

static enum bpf_perf_event_ret on_record(void *ctx, int cpu, struct perf_event_header *header)
{
	struct sample { struct perf_event_header header; __u32 size; char data[]; } *sample = (void *)header;
	struct lost { struct perf_event_header header; __u64 id, count; } *lost = (void *)header;

	if (header->type == PERF_RECORD_SAMPLE)
		event(ctx, cpu, sample->data, sample->size);
	else if (header->type == PERF_RECORD_LOST)
		on_lost(ctx, cpu, lost->count);
	return LIBBPF_PERF_EVENT_CONT;
}

static int on_ringbuf(void *ctx, void *data, size_t size)
{
	event(ctx, -1, data, size);
	return 0;
}

static int open_source(struct source *s, int map, bool ringbuf)
{
	LIBBPF_OPTS(perf_buffer_opts, opts, .sample_period = settings.wakeup_events);
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_BPF_OUTPUT, .sample_type = PERF_SAMPLE_RAW,
		.sample_period = 1, .watermark = 1, .wakeup_watermark = settings.wakeup_bytes,
	};

	if (ringbuf)
		s->rb = ring_buffer__new(map, on_ringbuf, s, NULL);
	else if (settings.wakeup_bytes)
		s->pb = perf_buffer__new_raw(map, settings.pages, &attr, on_record, s, NULL);
	else
		s->pb = perf_buffer__new(map, settings.pages, on_sample, on_lost, s, &opts);
	return s->pb || s->rb ? 0 : -errno;
}

static bool open_all(void)
{
	for (int i = 0; i < settings.count; i++) {
		sources[i].index = i;
		int err = open_source(&sources[i], settings.maps[i], settings.ringbuf[i]);
		if (err) {
			text(ERROR, strerror(-err));
			return false;
		}
	}
	return true;
}

static void close_all(void)
{
	for (int i = 0; i < settings.count; i++) {
		perf_buffer__free(sources[i].pb);
		ring_buffer__free(sources[i].rb);
		sources[i].pb = NULL, sources[i].rb = NULL;
	}
}

static void check(int err)
{
	char what[128];

	if (err < 0 && err != -EINTR) {
		snprintf(what, sizeof(what), "a call to read returns %d (%s)", err, strerror(-err));
		text(ERROR, what);
	}
	fflush(stdout);
}

// consume takes all that there is.
static void consume(struct source *s)
{
	if (s->pb)
		check(perf_buffer__consume(s->pb));
	else if (s->rb)
		check(ring_buffer__consume(s->rb));
}

// command carries out a command, or returns why libbpf cannot.
static const char *command(const char *name, long n)
{
	if (!strcmp(name, "flush") || !strcmp(name, "drain"))
		for (int i = 0; i < settings.count; i++)
			consume(&sources[i]);
	else if (!strcmp(name, "stop") || !strcmp(name, "go"))
		reading = *name == 'g';
	else if (!strcmp(name, "slow"))
		slow = n;
	else if (!strcmp(name, "deadline") && settings.count > 1)
		return "one call waits for one perf_buffer or ring_buffer";
	else if (!strcmp(name, "deadline"))
		check(sources[0].pb ? perf_buffer__poll(sources[0].pb, n) : ring_buffer__poll(sources[0].rb, n));
	else if (!strcmp(name, "keep"))
		return "data is valid until the callback returns, and there is no call that copies it";
	else if (!strcmp(name, "allocations"))
		frame(NUMBER, 0, -1, &allocations, sizeof(allocations));
	else if (!strcmp(name, "close"))
		close_all();
	else if (!strcmp(name, "reopen"))
		open_all();
	else if (!strcmp(name, "close2"))
		return "perf_buffer__free and ring_buffer__free free the memory: a second call would be its caller's mistake";
	else if (!strcmp(name, "closein"))
		return "perf_buffer__free and ring_buffer__free free what the loop around the callback still uses";
	else if (!strcmp(name, "pause") || !strcmp(name, "resume"))
		return "perf_buffer and ring_buffer have no way to pause the kernel";
	else
		return "unknown command";
	return NULL;
}

static void run_commands(bool may_read)
{
	char line[256], name[32];

	for (; next_command(line, sizeof(line), may_read); may_read = false) {
		long n = 0;
		const char *why;

		sscanf(line, "%31s %ld", name, &n);
		if (!strcmp(name, "quit"))
			exit(0);
		why = command(name, n);
		text(why ? CANNOT : DONE, why ?: name);
	}
}

// wait waits for stdin and for the sources. Asking perf_buffer__epoll_fd would take the news from perf_buffer__poll: an event is
// polled as readable once for each wakeup. So each buffer is asked by itself.
static void wait(void)
{
	struct { struct source *s; int buffer; } of[MAX_FDS];
	struct pollfd fds[MAX_FDS] = { { .fd = 0, .events = POLLIN } };
	int count = 1;

	for (int i = 0; reading && i < settings.count; i++) {
		struct source *s = &sources[i];
		int buffers = s->pb ? perf_buffer__buffer_cnt(s->pb) : s->rb ? 1 : 0;

		for (int buffer = 0; buffer < buffers && count < MAX_FDS; buffer++, count++) {
			fds[count].fd = s->pb ? perf_buffer__buffer_fd(s->pb, buffer) : ring_buffer__epoll_fd(s->rb);
			fds[count].events = POLLIN;
			of[count].s = s, of[count].buffer = buffer;
		}
	}
	if (poll(fds, count, -1) < 0 && errno != EINTR)
		exit(1);
	for (int i = 1; i < count; i++) {
		if (fds[i].revents && of[i].s->pb)
			check(perf_buffer__consume_buffer(of[i].s->pb, of[i].buffer));
		else if (fds[i].revents)
			consume(of[i].s);
	}
	run_commands(fds[0].revents != 0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "describe"))
		return printf("reader=libbpf version=%s\n", libbpf_version_string() + 1) < 0; // without its v
	read_settings(&settings, argv + 1);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	if (settings.ordered) {
		text(CANNOT, "each CPU's buffer is read by itself, and events have no kernel time");
		return 0;
	}
	if (settings.poll) {
		text(CANNOT, "perf_buffer__poll does not deliver what is below the watermark: for that, users call perf_buffer__consume");
		return 0;
	}
	if (!open_all())
		return 0;
	text(READY, "");
	reading = true;
	for (;;)
		wait();
}
