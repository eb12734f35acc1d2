// Package libbpf holds the few libbpf calls that ringfold needs, one thin function each:
// perf_buffer (set up, look into, free), map creation, lookup, update and delete, program load and
// test run, map and program information, the maps in a map of maps, and libbpf's version. A test
// run in the background is here too, because it needs a C thread. The package has no policy, starts
// no goroutine, and C never calls into Go: all perf_buffer callbacks are NULL and it calls neither
// perf_buffer__poll nor perf_buffer__consume, because Go reads the rings.
//
// It is the only package of the module with import "C". Without cgo, or off Linux, every call
// returns [ErrUnsupported], so that importing packages still build, vet and document.
//
// Building needs libbpf 1.0 or newer; pkg-config supplies the flags. By default the program links a
// shared library. The build tag static_build links libbpf and the whole program statically: see
// docs/static.md.
package libbpf
