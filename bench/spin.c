#include "spin.h"
#include <time.h>

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

void spin(uint64_t ns, struct spun *s)
{
	uint64_t begin = now(), last = begin;

	s->iterations = s->longest = s->away = 0;
	while (last - begin < ns) {
		uint64_t t = now();

		if (t - last > s->longest)
			s->longest = t - last;
		if (t - last >= 1000000)
			s->away += t - last;
		last = t;
		s->iterations++;
	}
}
