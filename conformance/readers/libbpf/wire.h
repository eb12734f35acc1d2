// PROTOCOL.md: settings, frames, commands.
#pragma once
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_MAPS 8
#define MAX_FDS 1024 // to wait for

enum frame_type { EVENT = 1, LOST, READY, DONE, ERROR, CANNOT, DAMAGED, NUMBER };

struct settings {
	int maps[MAX_MAPS], count;
	bool ringbuf[MAX_MAPS];
	unsigned long pages, wakeup_events, wakeup_bytes, poll;
	bool ordered;
};

static inline void frame(enum frame_type type, int source, int cpu, const void *data, uint32_t size)
{
	struct {
		uint16_t type, source;
		int32_t cpu;
		uint32_t size, reserved;
		uint64_t time;
	} header = { type, source, cpu, size, 0, 0 };

	if (fwrite(&header, sizeof(header), 1, stdout) != 1 || (size && fwrite(data, size, 1, stdout) != 1))
		exit(1); // without the suite there is nothing left to do
}

static inline void text(enum frame_type type, const char *text)
{
	frame(type, 0, -1, text, strlen(text));
	fflush(stdout);
}

static inline void read_settings(struct settings *s, char **args)
{
	char *rest, *kinds = NULL;

	s->pages = 64;
	for (; *args; args++) {
		char *value = strchr(*args, '=');

		if (!value)
			continue;
		*value++ = 0;
		if (!strcmp(*args, "maps")) {
			for (char *fd = strtok_r(value, ",", &rest); fd && s->count < MAX_MAPS; fd = strtok_r(NULL, ",", &rest))
				s->maps[s->count++] = atoi(fd);
		} else if (!strcmp(*args, "kind"))
			kinds = value;
		else if (!strcmp(*args, "pages"))
			s->pages = atol(value);
		else if (!strcmp(*args, "wakeup_events"))
			s->wakeup_events = atol(value);
		else if (!strcmp(*args, "wakeup_bytes"))
			s->wakeup_bytes = atol(value);
		else if (!strcmp(*args, "poll"))
			s->poll = atol(value);
		else if (!strcmp(*args, "order"))
			s->ordered = !strcmp(value, "time");
	}
	char *kind = kinds ? strtok_r(kinds, ",", &rest) : NULL;
	for (int i = 0; i < s->count; i++) {
		s->ringbuf[i] = kind && !strcmp(kind, "ringbuf");
		char *next = kind ? strtok_r(NULL, ",", &rest) : NULL;
		kind = next ?: kind;
	}
}

// next_command is the next line of stdin that is there: false if there is none. It exits at the end of the file.
static inline bool next_command(char *line, size_t size, bool may_read)
{
	static char buffer[4096];
	static size_t have;
	char *end = memchr(buffer, '\n', have);

	if (!end && may_read) {
		ssize_t n = read(0, buffer + have, sizeof(buffer) - have);

		if (n <= 0)
			exit(0);
		have += n;
		end = memchr(buffer, '\n', have);
	}
	if (!end)
		return false;
	*end++ = 0;
	snprintf(line, size, "%.255s", buffer);
	have -= end - buffer;
	memmove(buffer, end, have);
	return true;
}
