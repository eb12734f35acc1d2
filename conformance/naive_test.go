package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ringfold/ringfold/conformance/wire"
	"golang.org/x/sys/unix"
)

// naive is an adapter around a reader of one ring buffer that looks when the kernel wakes it, and never else. With the fault looks-first
// it decides to sleep before its position is there for the kernel to see, as one without a barrier may.
func naive(fault string) error {
	if os.Args[1] == "describe" {
		_, err := fmt.Println("reader=naive version=1")
		return err
	}
	const fd = 3
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return err
	}
	_, text, _ := strings.Cut(string(info), "max_entries:")
	size, page := uint64(0), os.Getpagesize()
	if _, err := fmt.Sscan(text, &size); err != nil {
		return err
	}
	own, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	rest, err := unix.Mmap(fd, int64(page), page+2*int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}); err != nil {
		return err
	}
	out := wire.NewWriter(os.Stdout)
	go func() {
		for commands := bufio.NewScanner(os.Stdin); commands.Scan() && commands.Text() != "quit"; {
			out.Text(wire.Done, commands.Text())
		}
		os.Exit(0)
	}()
	out.Text(wire.Ready, "")

	// The kernel's pages, whose positions and headers are atomic for both sides.
	consumer, producer := (*uint64)(unsafe.Pointer(&own[0])), (*uint64)(unsafe.Pointer(&rest[0]))
	pos := atomic.LoadUint64(consumer)
	for {
		for end := atomic.LoadUint64(producer); pos != end; {
			at := page + int(pos%size)
			header := atomic.LoadUint32((*uint32)(unsafe.Pointer(&rest[at])))
			if header&unix.BPF_RINGBUF_BUSY_BIT != 0 {
				break
			}
			length := header &^ unix.BPF_RINGBUF_DISCARD_BIT
			if header == length {
				out.Write(wire.Frame{Type: wire.Event, CPU: -1, Data: rest[at+unix.BPF_RINGBUF_HDR_SZ:][:length]})
			}
			pos += uint64(length+unix.BPF_RINGBUF_HDR_SZ+7) &^ 7
			if fault == "naive-looks-first" {
				end = atomic.LoadUint64(producer)
				for begin := time.Now(); time.Since(begin) < 20*time.Microsecond; {
				}
			}
			atomic.SwapUint64(consumer, pos) // in mapped memory the race detector makes a store a plain one
			if fault != "naive-looks-first" {
				end = atomic.LoadUint64(producer)
			}
		}
		out.Flush()
		unix.EpollWait(epoll, make([]unix.EpollEvent, 1), -1)
	}
}
