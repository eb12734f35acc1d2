package raw_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// guarded returns a page between two that fault when touched.
func guarded(tb testing.TB) []byte {
	page := os.Getpagesize()
	m, err := unix.Mmap(-1, 0, 3*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Munmap(m) })
	middle := m[page : 2*page : 2*page]
	if err := unix.Mprotect(middle, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		tb.Fatal(err)
	}
	return middle
}

// reserved returns memory that costs nothing until it is written.
func reserved(tb testing.TB, n int) []byte {
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		tb.Skip(err)
	}
	tb.Cleanup(func() { unix.Munmap(m) })
	return m
}
