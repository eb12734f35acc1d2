// Package libbpf holds libbpf's perf_buffer, one thin function per call: set up, look into, free;
// and libbpf's version. The package has no policy, starts no goroutine, and C never calls into Go:
// all perf_buffer callbacks are NULL and it calls neither perf_buffer__poll nor
// perf_buffer__consume, because Go reads the rings.
//
// It is the only package of the module with import "C". Building it needs libbpf 1.0 or newer;
// pkg-config supplies the flags. By default the program links a shared library. The build tag
// static_build links libbpf and the whole program statically: see docs/static.md.
//
// Without cgo, with the build tag perfbuf_nolibbpf, or off Linux, [Available] is false and every
// call returns [ErrUnsupported]. Package perfevent then opens and maps rings itself.
package libbpf

import (
	"errors"
	"fmt"
)

// Every call returns ErrUnsupported in a program without libbpf.
var ErrUnsupported = fmt.Errorf("ringfold: this program was built without libbpf: %w", errors.ErrUnsupported)

// Info describes the libbpf that the program runs with.
type Info struct {
	Version string // libbpf_version_string, for example "v1.4"
	Headers string // the version of the headers at build time, for example "v1.4"
	Static  bool   // linked into the program rather than loaded
	Path    string // the file of the shared library; empty if there is none
}
