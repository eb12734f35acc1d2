package raw_test

import (
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
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

// A reader stores the tail and looks at the head while a program stores the head and looks at the
// tail: at least one of the two sees the other's store. The memory is mapped, as the race detector
// treats atomics in it in another way.
func TestSetTailBeforeLookingAtTheHead(t *testing.T) {
	const rounds = 2_000_000
	m := reserved(t, 2*os.Getpagesize())
	// Invariant: both are mapped, at the beginning of a page.
	tail, head := (*uint64)(unsafe.Pointer(&m[0])), (*uint64)(unsafe.Pointer(&m[os.Getpagesize()]))
	r, err := raw.NewRingBuf(tail, head, make([]byte, 2*64))
	require.NoError(t, err)

	tails, heads := make([]uint64, rounds+2), make([]uint64, rounds+2) // what each saw after its store of this round
	tails[rounds+1] = rounds
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := uint64(1); i <= rounds; i++ {
			atomic.SwapUint64(head, 8*i)
			tails[i] = atomic.LoadUint64(tail) / 8
		}
	}()
	for i := uint64(1); i <= rounds; i++ {
		r.SetTail(8 * i)
		heads[i] = r.Head() / 8
	}
	<-done
	missed := 0
	for i := uint64(1); i <= rounds; i++ {
		if next := heads[i] + 1; tails[next] < i { // the store that the reader did not see
			missed++
		}
	}
	require.Zero(t, missed, "rounds in which neither saw the other's store")
}
