package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
	"golang.org/x/sys/unix"
)

// firstEvent measures how long an event takes to the user's function after the reader was idle: from
// the program's clock read, which is in the payload, to a clock read in the function. The readers
// take turns, 100 ms apart, so each has been idle for longer.
//
// cilium-watermark is left out: it would wait forever.
func firstEvent(r *run) error {
	readers := built(ringfold, ringfoldEveryEvent, libbpfC, cilium, libbpfgoReader, ringfoldChannels, ayaReader, ciliumRingbuf)
	return firstEvents(r, "", readers, options{ringBytes: 256 << 10, timed: true})
}

// firstEvents adds figures in cases whose names begin so.
func firstEvents(r *run, name string, readers []string, o options) error {
	rounds, idle := 200, 100*time.Millisecond
	if r.quick {
		rounds, idle = 5, 20*time.Millisecond
	}
	unpin, err := pin(cpus[0])
	if err != nil {
		return err
	}
	defer unpin()
	all, closeAll, err := loadAll(readers, o)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, o := range all {
		if err := o.open(); err != nil {
			return err
		}
		if err := o.p.start(); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	took, byCPU := samples{}, make([]samples, len(cpus))
	for i := range byCPU {
		byCPU[i] = samples{}
	}
	rnd := rand.New(rand.NewPCG(1, 2)) // who comes before whom matters
	for round := range 1 + rounds {    // the first warms up
		for _, at := range rnd.Perm(len(all)) {
			o := all[at]
			sleep(idle)
			d, err := o.firstEvent(cpus[round%len(cpus)])
			if err != nil {
				return err
			}
			if round > 0 {
				took.add(o.name, float64(d.Nanoseconds())/1000)
				byCPU[round%len(cpus)].add(o.name, float64(d.Nanoseconds())/1000)
			}
		}
	}
	// The median of all would lie between those of two CPUs, and jump.
	medians := map[string]figure{}
	for _, one := range byCPU {
		for reader, f := range one.medians() {
			m, n := medians[reader], float64(min(len(cpus), rounds))
			medians[reader] = figure{m.value + f.value/n, m.low + f.low/n, m.high + f.high/n}
		}
	}
	r.add(name+"p50", "us", medians, readers...)
	r.add(name+"p99", "us", took.quantiles(0.99), readers...)
	for _, o := range all {
		if err := o.close(); err != nil {
			return err
		}
	}
	return nil
}

// sleep blocks in a system call, which a signal of Go's scheduler ends early. Unlike workload.Nap,
// it leaves the processor to the scheduler, so that all of the process is idle.
func sleep(d time.Duration) {
	for until := time.Now().Add(d); ; {
		ts := unix.NsecToTimespec(int64(max(time.Until(until), 0)))
		if unix.Nanosleep(&ts, nil) == nil {
			return
		}
	}
}

// firstEvent outputs an event and returns how long it took.
func (r *opened) firstEvent(cpu int) (time.Duration, error) {
	before, _ := r.p.counts()
	if err := r.c.emit(cpu, 1, 56); err != nil {
		return 0, err
	}
	for begin := time.Now(); ; {
		workload.Nap(time.Millisecond) // leaves the CPU to the reader
		if events, _ := r.p.counts(); events > before {
			delays := r.p.timing().delays
			return time.Duration(delays[len(delays)-1]), nil
		}
		if time.Since(begin) > patience {
			o, err := r.outputs()
			return 0, errors.Join(err, fmt.Errorf("%s has not read an event on CPU %d in %v, after %d others: %d of %d outputs were refused",
				r.name, cpu, patience, before, o.failed, o.attempted))
		}
	}
}
