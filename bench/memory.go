package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// memory measures what a reader has allocated when it is open and has been used: RssAnon of
// /proc/self/status, the difference that several readers of 64 KiB rings make, and to that the pages that
// the kernel has for the rings, which RssAnon leaves out. Descriptors and perf events are not counted,
// and less than a page for each reader is lost in rounding.
// And it measures how often readers in Go allocate while they drain.
func memory(r *run) error {
	const ringBytes = 64 << 10
	readers := built(ringfold, libbpfC, cilium, libbpfgoReader, ringfoldChannels, ayaReader, ciliumRingbuf)
	inGo := []string{ringfold, cilium, libbpfgoReader, ringfoldChannels, ciliumRingbuf}
	rounds, copies := 3, 8
	if r.quick {
		rounds, copies = 1, 2
	}
	perRing := samples{}
	for round := range 1 + rounds {
		for _, name := range rotated(readers, round) {
			n, err := resident(name, ringBytes, copies)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if round > 0 { // what the process allocates once is in the first
				perRing.add(name, n/1024)
			}
		}
	}
	one := perRing.medians()
	all := map[string]figure{}
	for name, kib := range one {
		all[name] = figure{128 * kib.value / 1024, 128 * kib.low / 1024, 128 * kib.high / 1024}
	}
	r.add("resident per ring (64KiB)", "KiB", one, readers...)
	r.add("resident for 128 rings, from "+fmt.Sprint(len(cpus)), "MiB", all, readers...)
	return allocations(r, inGo, ringBytes)
}

// resident is what a reader takes for each of its rings, in bytes.
func resident(name string, ringBytes, copies int) (float64, error) {
	var same []string
	for range copies {
		same = append(same, name)
	}
	all, closeAll, err := loadAll(same, options{ringBytes: ringBytes})
	if err != nil {
		return 0, err
	}
	defer closeAll()
	before, err := rssAnon()
	if err != nil {
		return 0, err
	}
	for _, o := range all {
		if err := o.open(); err != nil {
			return 0, err
		}
		if _, err := o.fillAndDrain(100, 56); err != nil {
			return 0, err
		}
	}
	after, err := rssAnon()
	if err != nil {
		return 0, err
	}
	rings := copies * len(cpus)
	kernel := float64(ringBytes + os.Getpagesize()) // and the page with head and tail
	if name == ciliumRingbuf {
		// Pages for the head and for the tail, once, and the rings' bytes in one piece.
		total := all[0].c.bytes + 2*os.Getpagesize()
		kernel = float64(total) / float64(len(cpus))
	}
	return kernel + max(0, float64(after-before)/float64(rings)), nil
}

// rssAnon is the resident memory of this process that is no mapping of a file or a ring, garbage left out.
func rssAnon() (int, error) {
	debug.FreeOSMemory()
	trimC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("/proc/self/status has no RssAnon")
}

func allocations(r *run, readers []string, ringBytes int) error {
	all, closeAll, err := loadAll(readers, options{ringBytes: ringBytes})
	if err != nil {
		return err
	}
	defer closeAll()
	perEvent := map[string]figure{}
	for _, o := range all {
		if err := o.open(); err != nil {
			return err
		}
		perCPU := fills(all[0].o, 56)
		for range 3 { // buffers that are kept are allocated, for a record across the ring's edge too
			if _, err := o.fillAndDrain(perCPU, 56); err != nil {
				return err
			}
		}
		const drains = 10
		var mallocs uint64
		for range drains {
			n, err := o.mallocs(perCPU)
			if err != nil {
				return err
			}
			mallocs += n
		}
		perEvent[o.name] = figure{value: float64(mallocs) / float64(drains*perCPU*len(cpus))}
	}
	r.add("allocs/event", "", perEvent, readers...)
	return nil
}

// mallocs fills the rings and returns how many allocations it took to drain them.
func (r *opened) mallocs(perCPU int) (uint64, error) {
	if err := r.fill(perCPU, 56); err != nil {
		return 0, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := r.p.drain(perCPU * len(cpus))
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, err
}
