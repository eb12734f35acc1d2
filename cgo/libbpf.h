/* What every file of this package includes: libbpf, with its oldest usable version enforced. */
#ifndef RINGFOLD_LIBBPF_H
#define RINGFOLD_LIBBPF_H

#if !__has_include(<bpf/libbpf_version.h>)
#error "ringfold needs libbpf 1.0 or newer, but its headers were not found or are older: install libbpf-dev (libbpf-devel), or run 'make setup'"
#endif
#include <bpf/libbpf_version.h>
#if LIBBPF_MAJOR_VERSION < 1
#error "ringfold needs libbpf 1.0 or newer (perf_buffer__buffer appeared there): install a newer libbpf-dev (libbpf-devel), or run 'make setup'"
#endif
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#endif
