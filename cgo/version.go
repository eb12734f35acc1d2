//go:build linux && cgo && !perfbuf_nolibbpf

package libbpf

/*
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include "libbpf.h"

static char *ringfold_libbpf_path(void)
{
	Dl_info info;

	if (!dladdr((void *)libbpf_version_string, &info) || !info.dli_fname)
		return NULL;
	return realpath(info.dli_fname, NULL);
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// Version returns the version of libbpf, and how it was linked.
func Version() (Info, error) {
	info := Info{
		Version: C.GoString(C.libbpf_version_string()),
		Headers: fmt.Sprintf("v%d.%d", C.LIBBPF_MAJOR_VERSION, C.LIBBPF_MINOR_VERSION),
		Static:  static,
	}
	if !static {
		path := C.ringfold_libbpf_path() // NULL, which becomes "", if unknown
		info.Path = C.GoString(path)
		C.free(unsafe.Pointer(path))
		if program, err := os.Executable(); err == nil && info.Path == program {
			info.Path = "" // an archive, linked into a program that loads other libraries
		}
	}
	return info, nil
}
