// Package libbpf holds the few libbpf calls that ringfold needs, one thin function each:
// perf_buffer (set up, look into, free), map creation, lookup, update and delete, program load and test
// run, map and program information, the maps in a map of maps, and libbpf's version. One thing is here because it needs a thread of
// C: a test run in the background. The package has no policy, starts no goroutine, and C never calls into Go: all
// perf_buffer callbacks are NULL and neither perf_buffer__poll nor perf_buffer__consume is ever
// called, because the rings are read from Go.
//
// It is the only package of the module with import "C". Without cgo, or off Linux, every call
// returns [ErrUnsupported], so that importing packages still build, vet and document.
//
// libbpf 1.0 or newer is needed to build; pkg-config says where it is and what it takes. It is linked
// dynamically where there is a shared library; the build tag static_build links it, and the whole
// program, statically: see docs/static.md.
package libbpf
