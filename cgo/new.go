//go:build linux && cgo && !perfbuf_nolibbpf

package libbpf

/*
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "libbpf.h"

// libbpf returns an errno, and explains it through its one print function.
static libbpf_print_fn_t ringfold_others; // prints the messages that are not ours
static __thread char *ringfold_text;      // where this thread's warnings go; NULL: to the others'
static __thread size_t ringfold_room;

static int ringfold_print(enum libbpf_print_level level, const char *format, va_list args)
{
	libbpf_print_fn_t others;
	size_t used;

	if (ringfold_text && level == LIBBPF_WARN) {
		used = strlen(ringfold_text);
		return vsnprintf(ringfold_text + used, ringfold_room - used, format, args);
	}
	others = __atomic_load_n(&ringfold_others, __ATOMIC_RELAXED);
	return others ? others(level, format, args) : 0;
}

// perf_buffer__new_raw. perf_buffer_raw_opts holds pointers; filling it here keeps Go pointers out
// of Go memory handed to C.
static struct perf_buffer *ringfold_new(int map_fd, size_t pages, struct perf_event_attr *attr,
                                        int cnt, int *cpus, int *keys, char *text, size_t room)
{
	LIBBPF_OPTS(perf_buffer_raw_opts, opts, .cpu_cnt = cnt, .cpus = cpus, .map_keys = keys);
	libbpf_print_fn_t before, after;
	struct perf_buffer *pb;
	int err;

	before = libbpf_set_print(ringfold_print);
	if (before != ringfold_print)
		__atomic_store_n(&ringfold_others, before, __ATOMIC_RELAXED);
	ringfold_text = text;
	ringfold_room = room;
	pb = perf_buffer__new_raw(map_fd, pages, attr, NULL, NULL, &opts);
	err = errno;
	ringfold_text = NULL;
	// Ours replaces NULL, which prints nothing, for good: it prints nothing either. libbpf_print,
	// up to 1.4, calls a NULL that is stored while another thread prints.
	if (before) {
		after = libbpf_set_print(before);
		if (after != ringfold_print)
			libbpf_set_print(after); // another thread set it meanwhile
	}
	errno = err;
	return pb;
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// printing guards the print function while it is ours: all threads share it.
var printing sync.Mutex

// NewRaw calls perf_buffer__new_raw: one ring of pages pages for each CPU in cpus, in that order,
// its perf event opened with attr and stored in the map under the key of the same index. An offline
// CPU fails the whole call with ENODEV. libbpf keeps mapFD without duplicating it: it must stay
// open until Free. pages must be a power of two.
//
// libbpf's warnings go into the error, and not to its print function. Do not call libbpf_set_print
// at the same time: it takes effect, but may return the function in use here.
func NewRaw(mapFD, pages int, attr *unix.PerfEventAttr, cpus, keys []int) (*PerfBuffer, error) {
	if len(cpus) == 0 || len(cpus) != len(keys) {
		return nil, fmt.Errorf("perf_buffer__new_raw: %d CPUs and %d map keys: want equally many, at least one", len(cpus), len(keys))
	}
	c, k := make([]C.int, len(cpus)), make([]C.int, len(keys))
	for i := range cpus {
		c[i], k[i] = C.int(cpus[i]), C.int(keys[i])
	}
	text := make([]byte, 1024)
	printing.Lock()
	defer printing.Unlock()
	// unix.PerfEventAttr has the kernel's layout; libbpf copies it before it returns.
	pb, err := C.ringfold_new(C.int(mapFD), C.size_t(pages), (*C.struct_perf_event_attr)(unsafe.Pointer(attr)), C.int(len(c)), &c[0], &k[0],
		(*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	if pb == nil {
		e := failed("perf_buffer__new_raw", err)
		e.Detail = detail(text)
		return nil, e
	}
	return &PerfBuffer{pb}, nil
}

// detail joins libbpf's output into one line. It drops the errno, which versions render
// differently.
func detail(printed []byte) string {
	printed, _, _ = bytes.Cut(printed, []byte{0})
	var all []string
	for line := range strings.Lines(string(printed)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "libbpf: ")
		if i := strings.LastIndex(line, ": "); i >= 0 {
			line = line[:i]
		}
		if line != "" {
			all = append(all, line)
		}
	}
	return strings.Join(all, "; ")
}
