//go:build aya

package main

/*
#cgo LDFLAGS: ${SRCDIR}/../build/aya/libayapeer.a -lpthread -ldl -lm
#include <stdlib.h>
#include "peers_aya.h"

static uint64_t load(uint64_t *counter) { return __atomic_load_n(counter, __ATOMIC_SEQ_CST); }
static void stop(struct aya_counts *c) { __atomic_store_n(&c->stop, true, __ATOMIC_SEQ_CST); }
*/
import "C"

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

const withAya = true

// ayaPeer is aya's PerfEventArray or RingBuf, in a static library (scripts/aya.sh). A drain is one call from
// Go into it. The loop stays in Rust, and waits by epoll.
type ayaPeer struct {
	p    *C.struct_aya_peer
	c    *C.struct_aya_counts
	done chan error
}

func openAya(c *collection, o options) (peer, error) {
	pages := o.pages()
	if o.ringBuf {
		pages = 0
	}
	fd, err := unix.FcntlInt(uintptr(c.FD(c.to)), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	counts := (*C.struct_aya_counts)(C.calloc(1, C.sizeof_struct_aya_counts))
	if o.timed {
		counts.most = mostDelays
		counts.delays = (*C.uint32_t)(C.calloc(mostDelays, 4))
	}
	p := &ayaPeer{p: C.aya_open(C.int(fd), C.size_t(pages)), c: counts}
	if p.p == nil {
		p.free()
		return nil, errors.New("see the message above")
	}
	return p, nil
}

func (p *ayaPeer) prepare() error { return nil }

func (p *ayaPeer) drain(want int) error {
	n := C.aya_drain(p.p, p.c)
	if n < 0 {
		return errors.New("reading has failed: see the message above")
	}
	if p.c.lost > 0 {
		return errors.New("a ring has lost samples")
	}
	return expect(int(n), want)
}

func (p *ayaPeer) start() error {
	p.done = make(chan error, 1)
	go func() {
		if C.aya_poll(p.p, p.c) != 0 {
			p.done <- errors.New("polling has failed: see the message above")
		}
		close(p.done)
	}()
	return nil
}

func (p *ayaPeer) counts() (events, lost uint64) {
	return uint64(C.load(&p.c.events)), uint64(C.load(&p.c.lost))
}

func (p *ayaPeer) timing() timing {
	events, _ := p.counts()
	n := min(events, uint64(p.c.most))
	// The array has most elements, and lives until free. The first n are not written again.
	return timing{unsafe.Slice((*uint32)(p.c.delays), n), uint64(C.load(&p.c.overtaken))}
}

func (p *ayaPeer) close() (err error) {
	if p.done != nil {
		C.stop(p.c)
		err = <-p.done
	}
	C.aya_close(p.p)
	p.free()
	return err
}

func (p *ayaPeer) free() {
	C.free(unsafe.Pointer(p.c.delays))
	C.free(unsafe.Pointer(p.c))
}
