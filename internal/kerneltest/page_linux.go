//go:build cgo

package kerneltest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SlowPage is a page of memory that is absent at first. A read of it, by the kernel too, blocks
// until Fill. It uses userfaultfd(2).
type SlowPage struct {
	t    testing.TB
	fd   int
	page []byte
	fill func() error
}

// Of include/uapi/linux/userfaultfd.h.
const (
	uffdAPI         = 0xaa
	uffdModeMissing = 1
	uffdioAPI       = 0xc018aa3f
	uffdioRegister  = 0xc020aa00
	uffdioZeropage  = 0xc020aa04
)

// NewSlowPage makes a SlowPage, and removes it when the test ends. Where userfaultfd is not
// permitted, the test is skipped, or fails: see Require.
func NewSlowPage(t testing.TB) *SlowPage {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		unable(t, fmt.Sprintf("needs userfaultfd: %v", errno))
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(int(fd)) // blocked readers get zeros
		unix.Munmap(page)
	})
	start, size := uint64(uintptr(unsafe.Pointer(&page[0]))), uint64(len(page))
	ioctl := func(request uintptr, words ...uint64) error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(&words[0])))
		if errno != 0 {
			return fmt.Errorf("userfaultfd: ioctl %#x: %w", request, errno)
		}
		return nil
	}
	if err := errors.Join(ioctl(uffdioAPI, uffdAPI, 0, 0), ioctl(uffdioRegister, start, size, uffdModeMissing, 0)); err != nil {
		t.Fatal(err)
	}
	return &SlowPage{t, int(fd), page, func() error { return ioctl(uffdioZeropage, start, size, 0, 0) }}
}

// Address is where the page is.
func (p *SlowPage) Address() uintptr { return uintptr(unsafe.Pointer(&p.page[0])) }

// Wait returns when somebody waits for the page.
func (p *SlowPage) Wait() error {
	for {
		var message [32]byte // struct uffd_msg
		if _, err := unix.Read(p.fd, message[:]); err != syscall.EINTR {
			return err
		}
	}
}

// Fill releases the blocked readers.
func (p *SlowPage) Fill() {
	p.t.Helper()
	if err := p.fill(); err != nil {
		p.t.Fatal(err)
	}
}
