package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf/perf"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// realEvents is how many events a ring gets before it is read: nearly as many as it has room for, in
// the layout that takes most. The number is divisible by the lengths of bursts.
const realEvents = 800

// openReal opens a reader of the kernel's rings of two CPUs, which are filled in turns.
func openReal(reader string, burst int) (*rings, error) {
	if len(cpus) < 2 {
		return nil, fmt.Errorf("two rings take two CPUs, and this process has %d: choose other benchmarks, with -bench", len(cpus))
	}
	c, err := load(reader, options{ringBytes: orderedRingBytes})
	if err != nil {
		return nil, err
	}
	all := &rings{fill: func() (int, error) { return fillReal(c, burst) }}
	if err := openRealDrain(reader, c, all); err != nil {
		c.close()
		return nil, err
	}
	closeReader := all.close
	all.close = func() {
		closeReader()
		c.close()
	}
	return all, nil
}

func openRealDrain(reader string, c *collection, all *rings) error {
	if reader == ciliumHeap {
		m, err := ciliumMap(c.FD(workload.Events))
		if err != nil {
			return err
		}
		defer m.Close()
		r, err := perf.NewReader(m, orderedRingBytes)
		if err != nil {
			return err
		}
		all.close = func() { r.Close() }
		h := &recordHeap{}
		all.drain = func(f deliver) error {
			r.SetDeadline(time.Unix(1, 0)) // has passed: what is there, and no waiting
			return heapOrder(r, os.ErrDeadlineExceeded, h, f)
		}
		return nil
	}
	r, err := perfbuf.Open(c.FD(workload.Events), perfbuf.Options{RingBytes: orderedRingBytes, CPUs: cpus[:2]})
	if err != nil {
		return err
	}
	all.close = func() { r.Close() }
	if all.drain, err = ringfoldDrain(reader, r); err != nil {
		return errors.Join(err, r.Close())
	}
	return nil
}

// fillReal runs programs on two CPUs in turns, for as many events at a time as a burst has.
func fillReal(c *collection, burst int) (int, error) {
	before, err := c.outputs()
	if err != nil {
		return 0, err
	}
	for range realEvents / burst {
		for _, cpu := range cpus[:2] {
			if err := c.emit(cpu, burst, orderedPayload); err != nil {
				return 0, err
			}
		}
	}
	after, err := c.outputs()
	if done := after.since(before); err == nil && done.failed > 0 {
		err = fmt.Errorf("%d of %d outputs were refused", done.failed, done.attempted)
	}
	return 2 * realEvents, err
}
