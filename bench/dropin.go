package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// dropIn measures what a program gets for one changed line: libbpfgo and cilium/ebpf beside ringfold's drop-ins for them, which
// deliver in order. Overtaken are the events that came after a later one. Lost is what short bursts from all CPUs cost that nearly
// fill rings of 64 KiB, or are half as much again, and such that nearly fill smaller and larger ones while the user is busy for 5 us
// with each event, with time enough between them to read all: each reader is offered the same.
func dropIn(r *run) error {
	readers := []string{libbpfgoReader, ringfoldChannels, cilium, ringfoldPerf}
	rounds, lasts, bursts := 5, 500*time.Millisecond, 200
	if r.quick {
		rounds, lasts, bursts = 1, 100*time.Millisecond, 10
	}
	all, closeAll, err := loadAll(readers, options{ringBytes: 64 << 10, timed: true})
	if err != nil {
		return err
	}
	defer closeAll()
	for _, rate := range []int{1000, 10_000, 100_000} {
		delays, cost, overtaken, lost := samples{}, samples{}, samples{}, samples{}
		for round := range rounds {
			for _, o := range rotated(all, round) {
				seen, err := o.watch(flow{CPUs: cpus, Size: 56, Rate: rate}, true, lasts)
				if err != nil {
					return fmt.Errorf("%s at %d/s: %w", o.name, rate, err)
				}
				for _, d := range seen.delays {
					delays.add(o.name, float64(d)/1000)
				}
				cost.add(o.name, seen.cpu*seen.wall/float64(seen.window.attempted-seen.window.failed)*1e6)
				overtaken.add(o.name, float64(seen.overtaken)/float64(max(len(seen.delays), 1)))
				lost.add(o.name, float64(seen.all.failed)/float64(seen.all.attempted))
			}
		}
		name := fmt.Sprintf("%dk/s", rate/1000)
		r.add(name+" p50", "us", delays.medians(), readers...)
		r.add(name+" p99", "us", delays.quantiles(0.99), readers...)
		r.add(name, "s/Mevent", cost.medians(), readers...)
		r.add(name+" overtaken", "share", overtaken.medians(), readers...)
		r.add(name+" lost", "share", lost.medians(), readers...)
	}
	for _, c := range []struct {
		pages, percent int
		takes          time.Duration
	}{
		{16, 90, 0}, {16, 150, 0}, {4, 90, 5 * time.Microsecond}, {32, 90, 5 * time.Microsecond},
	} {
		lost, name := samples{}, fmt.Sprintf("bursts of %d %% of a ring, lost", c.percent)
		if c.takes > 0 {
			name = fmt.Sprintf("%d pages, busy user, %s", c.pages, name)
		}
		for round := range rounds {
			for _, o := range rotated(all, round) {
				o.o.ringBytes, o.o.takes = c.pages*4096, c.takes
				failed, err := o.bursts(bursts, c.percent*o.o.ringBytes/100/(300+24), 300)
				if err != nil {
					return fmt.Errorf("%s in bursts: %w", o.name, err)
				}
				lost.add(o.name, failed)
			}
		}
		r.add(name, "share", lost.medians(), readers...)
	}
	return nil
}

// bursts returns the share of events that was refused.
func (r *opened) bursts(n, perCPU, size int) (float64, error) {
	if err := r.open(); err != nil {
		return 0, err
	}
	defer r.close()
	if err := r.p.start(); err != nil {
		return 0, err
	}
	for range n {
		var emitting sync.WaitGroup
		errs := make([]error, len(cpus))
		for i, cpu := range cpus {
			emitting.Go(func() { errs[i] = r.c.emit(cpu, perCPU, size) })
		}
		emitting.Wait()
		if err := errors.Join(errs...); err != nil {
			return 0, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	all, err := r.settle()
	if err != nil {
		return 0, err
	}
	return float64(all.failed) / float64(all.attempted), r.close()
}
