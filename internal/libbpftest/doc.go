// Package libbpftest tests the library on the real kernel with libbpf alone: it loads its BPF
// program by system calls. The other kernel tests load theirs with libbpfgo, which does not build
// with all libbpf versions that the library supports (scripts/libbpf-matrix.sh).
package libbpftest
