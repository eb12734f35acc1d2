// Package libbpftest tests the library on the real kernel with libbpf and nothing else: its BPF program is loaded by system
// calls. libbpfgo, which loads those of the other kernel tests, does not build with all libbpf versions that the library itself
// builds with (scripts/libbpf-matrix.sh).
package libbpftest
