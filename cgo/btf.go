//go:build linux && cgo

package libbpf

/*
#include <stdlib.h>
#include <bpf/btf.h>
#include "libbpf.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const kernelBTF = "/sys/kernel/btf/vmlinux"

// KernelVariables calls btf__parse_raw and btf__find_by_name_kind. It returns the BTF type ids of
// per-CPU variables, by which programs refer to them. The call takes milliseconds, and some 10 MiB
// until it returns.
func KernelVariables(names ...string) ([]int32, error) {
	btf, err := parseKernelBTF()
	if err != nil {
		return nil, err
	}
	defer C.btf__free(btf)
	ids := make([]int32, len(names))
	for i, name := range names {
		cname := C.CString(name)
		id := C.btf__find_by_name_kind(btf, cname, C.BTF_KIND_VAR)
		C.free(unsafe.Pointer(cname))
		if id < 0 {
			return nil, &Error{Call: "btf__find_by_name_kind", Detail: fmt.Sprintf("no variable %s in %s", name, kernelBTF), Errno: unix.ENOENT}
		}
		ids[i] = int32(id)
	}
	return ids, nil
}

// parseKernelBTF returns the kernel's BTF, which the caller must free.
func parseKernelBTF() (*C.struct_btf, error) {
	path := C.CString(kernelBTF)
	defer C.free(unsafe.Pointer(path))
	btf, err := C.btf__parse_raw(path)
	if btf == nil {
		e := failed("btf__parse_raw", err)
		e.Detail = kernelBTF
		return nil, e
	}
	return btf, nil
}
