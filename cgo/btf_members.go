//go:build linux && cgo

package libbpf

/*
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/btf.h>
#include "libbpf.h"

// The offset of a member, also within anonymous structs and unions.
static int ringfold_offset(const struct btf *btf, const struct btf_type *t, const char *name)
{
	for (int i = 0; i < btf_vlen(t); i++) {
		const struct btf_member *m = btf_members(t) + i;
		const struct btf_type *in = btf__type_by_id(btf, m->type);
		const char *called = btf__name_by_offset(btf, m->name_off);
		int offset;

		if (!strcmp(called, name))
			return btf_member_bit_offset(t, i) / 8;
		if (!*called && btf_is_composite(in) && (offset = ringfold_offset(btf, in, name)) >= 0)
			return btf_member_bit_offset(t, i) / 8 + offset;
	}
	return -ENOENT;
}

static int ringfold_member(const struct btf *btf, const char *type, const char *name)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);

	return id < 0 ? id : ringfold_offset(btf, btf__type_by_id(btf, id), name);
}
*/
import "C"

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// KernelMembers calls btf__parse_raw and returns the byte offsets of struct members in the kernel.
// Each member is {struct, member}. The call costs as much time and memory as KernelVariables.
func KernelMembers(members ...[2]string) ([]int, error) {
	btf, err := parseKernelBTF()
	if err != nil {
		return nil, err
	}
	defer C.btf__free(btf)
	offsets := make([]int, len(members))
	for i, m := range members {
		of, name := C.CString(m[0]), C.CString(m[1])
		offset := C.ringfold_member(btf, of, name)
		C.free(unsafe.Pointer(of))
		C.free(unsafe.Pointer(name))
		if offset < 0 {
			return nil, &Error{Call: "btf__find_by_name_kind", Detail: fmt.Sprintf("no struct %s with a member %s in %s", m[0], m[1], kernelBTF), Errno: unix.ENOENT}
		}
		offsets[i] = int(offset)
	}
	return offsets, nil
}
