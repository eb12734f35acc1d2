package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"
)

// drain measures how long it takes to read full rings, in ns for each event. All rings are filled
// first; filling is not timed. Rounds go over the readers in turn. Where rings hold few events, a
// sample is of several drains, so what a drain costs beside its events is in it.
func drain(r *run) error {
	readers := built(ringfold, ringfoldForEach, libbpfC, cLoop, cilium, ciliumWatermark, libbpfgoReader, ringfoldChannels, ayaReader, ciliumRingbuf)
	payloads, rounds, rings := []int{16, 56, 256, 1024, 8192, mixed}, 31, []int{64 << 10, 4 << 20}
	if r.quick {
		payloads, rounds, rings = []int{56, 8192, mixed}, 2, rings[:1]
	}
	// This goroutine stays free to move: for one that is locked to a thread, each turn with
	// libbpfgo's goroutine would be a switch of threads.
	for _, ringBytes := range rings {
		if err := drainRings(r, readers, options{ringBytes: ringBytes}, payloads, rounds); err != nil {
			return err
		}
	}
	return nil
}

func drainRings(r *run, readers []string, o options, payloads []int, rounds int) error {
	all, closeAll, err := loadAll(readers, o)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, o := range all {
		if err := o.open(); err != nil {
			return err
		}
	}
	for _, size := range payloads {
		took, err := drainCase(all, size, rounds)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%dB", size)
		if size == mixed {
			name = "mixed"
		}
		r.add(name+"/"+bytesName(o.ringBytes), "ns", took.medians(), readers...)
	}
	return nil
}

// mixed stands for payloads of 40 to 360 bytes, as records of real programs differ in length.
const (
	mixed     = 0
	mixedMean = 200
)

func bytesName(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%dKiB", n>>10)
}

// fills is how many events of each CPU fill rings to fifteen sixteenths. Of 4 MiB rings and small payloads it
// is less, as filling takes long: the wakeup of each event is paid even if nobody waits.
func fills(o options, size int) int {
	share := o.ringBytes / 16 * 15
	if size == mixed {
		size = mixedMean
	}
	record := (8 + 8 + 4 + size + 7) &^ 7 // header, time, raw_size: ringfold's, the largest of all
	if o.ringBuf {                        // of which there is one
		share, record = share/len(cpus), 8+(size+7)&^7
	}
	return min(share/record, 1<<14)
}

func drainCase(all []*opened, size, rounds int) (samples, error) {
	took := samples{}
	perCPU := fills(all[0].o, size)
	events := perCPU * len(cpus)
	times := (999 + events) / events
	runtime.GC()
	for round := range 1 + rounds { // the first warms up
		for _, o := range rotated(all, round) {
			var sum time.Duration
			for range times {
				d, err := o.fillAndDrain(perCPU, size)
				if err != nil {
					return nil, fmt.Errorf("%s, %d bytes: %w", o.name, size, err)
				}
				sum += d
			}
			if round > 0 {
				took.add(o.name, float64(sum.Nanoseconds())/float64(times*events))
			}
		}
	}
	return took, nil
}

// fillAndDrain outputs so many events on each CPU and returns how long it took to read them.
func (r *opened) fillAndDrain(perCPU, size int) (time.Duration, error) {
	if err := r.fill(perCPU, size); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := r.p.drain(perCPU * len(cpus))
	return time.Since(begin), err
}

// fill outputs so many events on each CPU.
func (r *opened) fill(perCPU, size int) error {
	if err := r.p.prepare(); err != nil {
		return err
	}
	before, err := r.c.outputs()
	if err != nil {
		return err
	}
	for _, c := range cpus {
		if err := r.output(c, perCPU, size); err != nil {
			return err
		}
	}
	after, err := r.c.outputs()
	if err != nil {
		return err
	}
	if o := after.since(before); o.failed > 0 {
		return fmt.Errorf("%d of %d outputs were refused", o.failed, o.attempted)
	}
	return nil
}

func (r *opened) output(cpu, count, size int) error {
	if size != mixed {
		return r.c.emit(cpu, count, size)
	}
	rnd := rand.New(rand.NewPCG(1, uint64(cpu)))
	for range count {
		if err := r.c.emit(cpu, 1, mixedMean-160+8*rnd.IntN(41)); err != nil {
			return err
		}
	}
	return nil
}
