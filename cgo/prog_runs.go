//go:build linux && cgo

package libbpf

/*
#include "libbpf.h"

static int ringfold_test_runs(int fd, const void *data, __u32 data_size, int n)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = data, .data_size_in = data_size);
	int err = 0;

	for (; n > 0 && !err; n--)
		err = bpf_prog_test_run_opts(fd, &opts);
	return err;
}
*/
import "C"

import "unsafe"

// ProgTestRuns calls bpf_prog_test_run_opts n times in a row on the calling thread, and stops at
// the first error. Go's scheduler takes the processor from a long call, so other goroutines
// continue even with one processor.
func ProgTestRuns(progFD int, data []byte, n int) error {
	return result("bpf_prog_test_run_opts",
		C.ringfold_test_runs(C.int(progFD), unsafe.Pointer(unsafe.SliceData(data)), C.__u32(len(data)), C.int(n)))
}
