package main

/*
#cgo CFLAGS: -Wall
#cgo pkg-config: libbpf
#include "peers.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/ringfold/ringfold/internal/workload"
)

// libbpfCPeer is libbpf's perf_buffer or ring_buffer with a callback in C, or a plain loop in C over the rings that
// are mapped. A drain is one call from Go into C, which takes some 50 ns. The loop is
// perf_buffer__poll or ring_buffer__poll with a timeout of 100 ms, and stays in C.
type libbpfCPeer struct {
	p     *C.struct_peer
	plain bool
	done  chan error
}

func openLibbpfC(c *collection, o options, plain bool) (peer, error) {
	delays := C.size_t(0)
	if o.timed {
		delays = mostDelays
	}
	var p *C.struct_peer
	var err error
	if o.ringBuf {
		p, err = C.peer_open_ringbuf(C.int(c.FD(workload.Shared)), C.size_t(o.ringBytes), delays)
	} else {
		p, err = C.peer_open(C.int(c.FD(workload.Events)), C.int(o.pages()), delays)
	}
	if p == nil {
		return nil, fmt.Errorf("perf_buffer__new or ring_buffer__new: %w", err)
	}
	return &libbpfCPeer{p: p, plain: plain}, nil
}

func (p *libbpfCPeer) prepare() error {
	p.p.events = 0
	return nil
}

func (p *libbpfCPeer) drain(want int) error {
	var err C.int
	if p.plain {
		err = C.peer_walk(p.p)
	} else {
		err = C.peer_consume(p.p)
	}
	if err != 0 {
		return syscall.Errno(-err)
	}
	if p.p.lost > 0 {
		return errors.New("a ring has lost samples")
	}
	return expect(int(p.p.events), want)
}

func (p *libbpfCPeer) start() error {
	if p.plain {
		return errors.New("the plain loop has no way to wait")
	}
	p.p.looping = 1
	p.done = make(chan error, 1)
	go func() {
		if err := C.peer_poll(p.p); err != 0 {
			p.done <- fmt.Errorf("perf_buffer__poll or ring_buffer__poll: %w", syscall.Errno(-err))
		}
		close(p.done)
	}()
	return nil
}

func (p *libbpfCPeer) counts() (events, lost uint64) {
	return uint64(C.peer_load(&p.p.events)), uint64(C.peer_load(&p.p.lost))
}

// trimC is debug.FreeOSMemory for C.
func trimC() { C.peer_trim() }

func (p *libbpfCPeer) timing() timing {
	events, _ := p.counts()
	n := min(events, uint64(p.p.most))
	// The array has p.most elements, and lives until peer_close. The first n are not written again.
	return timing{unsafe.Slice((*uint32)(p.p.delays), n), uint64(C.peer_load(&p.p.overtaken))}
}

func (p *libbpfCPeer) close() error {
	var err error
	if p.done != nil {
		C.peer_stop(p.p)
		err = <-p.done
	}
	C.peer_close(p.p)
	return err
}
