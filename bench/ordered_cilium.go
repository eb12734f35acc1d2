package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cilium/ebpf/perf"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// ciliumCopy does on rings in Go memory what perf.Reader.ReadInto of cilium/ebpf v0.22 does on those of
// the kernel, step by step (perf/reader.go and perf/ring.go): the two locks, the choice of the ring, heads
// loaded for all rings at once, the header and raw_size and the payload each read through an
// io.Reader, the payload copied into rec.RawSample, and the tail stored for each record. It leaves out
// epoll_wait, which comes once per drain, and rings that are overwritten.
//
// cilium/ebpf is Copyright (c) 2017 Nathan Sweet, 2018, 2019 Cloudflare, 2019 Authors of Cilium, under the MIT licence.
type ciliumCopy struct {
	mu, pauseMu sync.Mutex
	rings       []*ciliumRing
	unread      []*ciliumRing // epollRings
	header      []byte
	pendingErr  error
}

var (
	errEmptied = errors.New("all rings are empty") // os.ErrDeadlineExceeded, there
	errEOR     = errors.New("end of ring")
)

func newCiliumCopy(fake []*ringtest.Ring) *ciliumCopy {
	c := &ciliumCopy{header: make([]byte, 8)}
	for i, ring := range fake {
		data := ring.Data()
		c.rings = append(c.rings, &ciliumRing{cpu: i, kernel: ring, forward: &forwardReader{mask: uint64(len(data) - 1), ring: data}})
	}
	return c
}

// ReadInto reads a record, and fails with errEmptied when all that the rings held has been read.
func (c *ciliumCopy) ReadInto(rec *perf.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauseMu.Lock()
	defer c.pauseMu.Unlock()
	for {
		if len(c.unread) == 0 {
			if err := c.pendingErr; err != nil {
				c.pendingErr = nil
				return err
			}
			c.pendingErr = errEmptied // as if the deadline had passed
			for _, ring := range c.rings {
				ring.forward.head = ring.kernel.Head()
				c.unread = append(c.unread, ring)
			}
		}
		err := c.readRecordFromRing(rec, c.unread[len(c.unread)-1])
		if err == errEOR {
			c.unread = c.unread[:len(c.unread)-1]
			continue
		}
		return err
	}
}

func (c *ciliumCopy) readRecordFromRing(rec *perf.Record, ring *ciliumRing) error {
	defer ring.writeTail()
	rec.CPU = ring.cpu
	err := readRecord(ring.forward, rec, c.header)
	rec.Remaining = int((ring.forward.head - ring.forward.tail) & ring.forward.mask)
	return err
}

func readRecord(rd io.Reader, rec *perf.Record, buf []byte) error {
	buf = buf[:8]
	if _, err := io.ReadFull(rd, buf); errors.Is(err, io.EOF) {
		return errEOR
	} else if err != nil {
		return fmt.Errorf("read perf event header: %v", err)
	}
	if typ := binary.NativeEndian.Uint32(buf); typ != ringtest.TypeSample {
		return fmt.Errorf("record of type %d: the rings were to hold samples alone", typ)
	}
	rec.LostSamples = 0
	var err error
	rec.RawSample, err = readRawSample(rd, buf, rec.RawSample)
	return err
}

func readRawSample(rd io.Reader, buf, sampleBuf []byte) ([]byte, error) {
	buf = buf[:4]
	if _, err := io.ReadFull(rd, buf); err != nil {
		return nil, fmt.Errorf("read sample size: %w", err)
	}
	var data []byte
	if size := int(binary.NativeEndian.Uint32(buf)); cap(sampleBuf) < size {
		data = make([]byte, size)
	} else {
		data = sampleBuf[:size]
	}
	if _, err := io.ReadFull(rd, data); err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	return data, nil
}

// ciliumRing is perfEventRing.
type ciliumRing struct {
	cpu     int
	kernel  *ringtest.Ring
	forward *forwardReader
}

func (r *ciliumRing) writeTail() { r.kernel.SetTail(r.forward.tail) }

type forwardReader struct {
	head, tail, mask uint64
	ring             []byte
}

func (r *forwardReader) Read(p []byte) (int, error) {
	start := int(r.tail & r.mask)
	n := min(len(p), len(r.ring)-start, int(r.head-r.tail))
	copy(p, r.ring[start:start+n])
	r.tail += uint64(n)
	if r.tail == r.head {
		return n, io.EOF
	}
	return n, nil
}
