package main

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
)

// producer measures what an output costs the traced workload while events flow and the reader's loop
// runs: the time of bpf_perf_event_output in the BPF program, interrupts that wake the reader
// and a read of the clock included. Rings are large and the reader is waited for, as refused outputs would be
// cheap; there are none, or it fails.
func producer(r *run) error {
	readers := built(
		ringfold, ringfoldEveryEvent, ringfoldEvery64, ringfoldBytes,
		libbpfC, cilium, ciliumWatermark, libbpfgoReader, ringfoldChannels, ayaReader, ciliumRingbuf,
	)
	rounds, lasts := 9, 200*time.Millisecond
	if r.quick {
		rounds, lasts = 1, 20*time.Millisecond
	}
	unpin, err := pin(cpus[0])
	if err != nil {
		return err
	}
	defer unpin()
	all, closeAll, err := loadAll(readers, options{ringBytes: 4 << 20})
	if err != nil {
		return err
	}
	defer closeAll()
	took := samples{}
	for round := range rounds {
		for _, o := range rotated(all, round) {
			ns, err := o.produce(lasts)
			if err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
			took.add(o.name, ns)
		}
	}
	r.add("56B", "ns", took.medians(), readers...)
	return nil
}

// produce opens the reader, lets events flow, and returns what an output takes in ns.
func (r *opened) produce(lasts time.Duration) (float64, error) {
	const size = 56
	if err := r.open(); err != nil {
		return 0, err
	}
	defer r.close()
	if err := r.p.start(); err != nil {
		return 0, err
	}
	// Readers that wait for half of a ring let it become half full, and then some.
	most := uint64(r.o.ringBytes / 80 * 3 / 4) // of ringfold's records, the largest
	flow := func(lasts time.Duration) error {
		attempted, err := r.outputs()
		if err != nil {
			return err
		}
		for begin, n := time.Now(), attempted.attempted; time.Since(begin) < lasts; {
			const burst = 512
			if err := r.c.emit(cpus[0], burst, size); err != nil {
				return err
			}
			n += burst
			// Short pauses, so that for the reader events flow: it does not go idle.
			for {
				workload.Nap(100 * time.Microsecond)
				events, _ := r.p.counts()
				if n-events <= most {
					break
				}
				if time.Since(begin) > lasts+patience {
					return fmt.Errorf("has read %d of %d events, and reads no more", events, n)
				}
			}
		}
		return nil
	}
	if err := flow(lasts / 4); err != nil { // warms up
		return 0, err
	}
	before, err := r.outputs()
	if err != nil {
		return 0, err
	}
	if err := flow(lasts); err != nil {
		return 0, err
	}
	all, err := r.settle()
	if err != nil {
		return 0, err
	}
	if all.failed > 0 {
		return 0, fmt.Errorf("%d of %d outputs were refused: the reader has not kept up", all.failed, all.attempted)
	}
	o := all.since(before)
	return float64(o.ns) / float64(o.attempted), r.close()
}
