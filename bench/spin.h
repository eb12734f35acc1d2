// A program that wants a CPU for itself.
#pragma once
#include <stdint.h>

struct spun {
	uint64_t iterations;
	uint64_t longest; // ns between two of them, at most
	uint64_t away;    // ns in pauses of 1 ms and more, when others have run: programs, or a hypervisor's
};

// Reads the clock all the time, for so long.
void spin(uint64_t ns, struct spun *s);
