//go:build linux && cgo

package libbpf

/*
#cgo noescape ringfold_test_run
#cgo nocallback ringfold_test_run
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "libbpf.h"

#ifndef BPF_F_TEST_RUN_ON_CPU // of kernel headers older than 5.10
#define BPF_F_TEST_RUN_ON_CPU (1U << 0)
#endif

static int ringfold_prog_load(int type, const char *name, const char *license, const struct bpf_insn *insns, size_t n,
                              char *log, size_t log_size)
{
	// With log_level 0 and a buffer, libbpf loads once more to fill it if the kernel refuses.
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .log_buf = log, .log_size = log_size);

	return bpf_prog_load(type, name, license, insns, n, &opts);
}

static int ringfold_test_run(int fd, const void *data, __u32 data_size, const void *ctx, __u32 ctx_size, int cpu, __u32 *ret)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = data, .data_size_in = data_size, .ctx_in = ctx,
	            .ctx_size_in = ctx_size);
	int err;

	if (cpu >= 0) {
		opts.flags = BPF_F_TEST_RUN_ON_CPU;
		opts.cpu = cpu;
	}
	err = bpf_prog_test_run_opts(fd, &opts);
	*ret = opts.retval;
	return err;
}

struct ringfold_run {
	pthread_t thread;
	int fd, err, over;
	size_t size;
	char data[];
};

static void *ringfold_runs(void *arg)
{
	struct ringfold_run *r = arg;
	__u32 ret;

	r->err = ringfold_test_run(r->fd, r->data, r->size, NULL, 0, -1, &ret);
	__atomic_store_n(&r->over, 1, __ATOMIC_RELEASE);
	return NULL;
}

static struct ringfold_run *ringfold_run_start(int fd, size_t size)
{
	struct ringfold_run *r = calloc(1, sizeof(*r) + size);
	pthread_attr_t attr;
	cpu_set_t others;
	int err;

	if (!r)
		return NULL;
	r->fd = fd;
	r->size = size;
	pthread_attr_init(&attr);
	if (!sched_getaffinity(0, sizeof(others), &others)) { // fails with over a thousand CPUs
		CPU_CLR(sched_getcpu(), &others);
		if (!CPU_COUNT(&others)) { // confined to one: ask for all others in the cpuset
			memset(&others, 0xff, sizeof(others));
			CPU_CLR(sched_getcpu(), &others);
		}
		pthread_attr_setaffinity_np(&attr, sizeof(others), &others);
	}
	err = pthread_create(&r->thread, &attr, ringfold_runs, r);
	if (err == EINVAL) // the cpuset has one CPU
		err = pthread_create(&r->thread, NULL, ringfold_runs, r);
	pthread_attr_destroy(&attr);
	if (err) {
		free(r);
		errno = err;
		return NULL;
	}
	return r;
}

static int ringfold_run_over(struct ringfold_run *r) { return __atomic_load_n(&r->over, __ATOMIC_ACQUIRE); }

static int ringfold_run_join(struct ringfold_run *r)
{
	int err;

	pthread_join(r->thread, NULL);
	err = r->err;
	free(r);
	return err;
}
*/
import "C"

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unsafe"
)

// ProgLoad calls bpf_prog_load and returns the program's descriptor, which is close-on-exec; the
// caller closes it. progType is enum bpf_prog_type. If the verifier refuses, the error has the end
// of its log.
func ProgLoad(progType int, name, license string, insns []Insn) (int, error) {
	// struct bpf_insn has two fields of four bits, ordered like the machine's bytes.
	low, high := 0, 4
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		low, high = 4, 0
	}
	code := make([]byte, 0, 8*len(insns))
	for _, i := range insns {
		code = append(code, i.Code, i.Dst<<low|i.Src<<high)
		code = binary.NativeEndian.AppendUint16(code, uint16(i.Off))
		code = binary.NativeEndian.AppendUint32(code, uint32(i.Imm))
	}
	cname, clicense := C.CString(name), C.CString(license)
	defer C.free(unsafe.Pointer(cname))
	defer C.free(unsafe.Pointer(clicense))
	log := make([]byte, 1<<16)
	// The kernel reads and libbpf writes this memory only during the call; struct bpf_insn is these
	// 8 bytes.
	fd := C.ringfold_prog_load(C.int(progType), cname, clicense, (*C.struct_bpf_insn)(unsafe.Pointer(unsafe.SliceData(code))),
		C.size_t(len(insns)), (*C.char)(unsafe.Pointer(&log[0])), C.size_t(len(log)))
	if err := result("bpf_prog_load", fd); err != nil {
		text, _, _ := bytes.Cut(log, []byte{0})
		err.(*Error).Detail = lastLines(string(text))
		return -1, err
	}
	return int(fd), nil
}

// lastLines returns the last lines of a verifier's log, without its statistics.
func lastLines(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "processed ") && !strings.HasPrefix(line, "verification time") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// ProgTestRun calls bpf_prog_test_run_opts, which runs the program once. It blocks, and returns the
// program's return value. data is a packet and ctx a context, for types that take them. A cpu of at
// least 0 runs the program on that CPU, in an interrupt (BPF_F_TEST_RUN_ON_CPU, raw tracepoints
// only, Linux 5.10).
func ProgTestRun(progFD int, data, ctx []byte, cpu int) (uint32, error) {
	var ret C.__u32
	err := C.ringfold_test_run(C.int(progFD), unsafe.Pointer(unsafe.SliceData(data)), C.__u32(len(data)),
		unsafe.Pointer(unsafe.SliceData(ctx)), C.__u32(len(ctx)), C.int(cpu), &ret)
	return uint32(ret), result("bpf_prog_test_run_opts", err)
}

// Run is a test run on its own thread. C starts the thread, so that it needs no processor of the Go
// scheduler to begin.
type Run struct{ run *C.struct_ringfold_run }

// ProgTestStart starts bpf_prog_test_run_opts on a packet of this size, and does not wait for it.
// Join must follow. It runs on another CPU than this, if the process's cpuset has one: preferably
// one that the thread may run on.
func ProgTestStart(progFD, packet int) (*Run, error) {
	r, err := C.ringfold_run_start(C.int(progFD), C.size_t(packet))
	if r == nil {
		return nil, failed("pthread_create", err)
	}
	return &Run{r}, nil
}

// Over reports whether the run has ended, or failed.
func (r *Run) Over() bool { return C.ringfold_run_over(r.run) != 0 }

// Join blocks until the run and its thread have ended. Call it once, as the last method.
func (r *Run) Join() error {
	defer func() { r.run = nil }()
	return result("bpf_prog_test_run_opts", C.ringfold_run_join(r.run))
}
