package main

import (
	"fmt"
	"slices"
	"time"
)

// cpu measures what reading costs the CPU at fixed rates, and when nothing happens: the whole CPU
// time of this process, in which one reader's loop runs at a time. Another process outputs.
func cpu(r *run) error {
	readers := built(
		ringfold, ringfoldEveryEvent, ringfoldBytes,
		libbpfC, cilium, ciliumWatermark, libbpfgoReader, ringfoldChannels, ayaReader, ciliumRingbuf,
	)
	rounds, lasts := 5, 600*time.Millisecond
	if r.quick {
		rounds, lasts = 1, 100*time.Millisecond
	}
	all, closeAll, err := loadAll(readers, options{ringBytes: 256 << 10})
	if err != nil {
		return err
	}
	defer closeAll()
	for _, rate := range []int{10_000, 100_000, 500_000, 0} {
		cost, lost, output := samples{}, samples{}, samples{}
		for round := range rounds {
			for _, o := range rotated(all, round) {
				seen, err := o.watch(flow{CPUs: cpus, Size: 56, Rate: rate}, rate > 0, lasts)
				if err != nil {
					return fmt.Errorf("%s at %d/s: %w", o.name, rate, err)
				}
				if rate == 0 {
					cost.add(o.name, 1000*seen.cpu)
					continue
				}
				cost.add(o.name, seen.cpu*seen.wall/float64(seen.window.attempted-seen.window.failed)*1e6)
				output.add(o.name, float64(seen.window.attempted)/seen.wall)
				lost.add(o.name, float64(seen.all.failed)/float64(seen.all.attempted))
			}
		}
		if rate == 0 {
			r.add("idle", "ms/s", cost.medians(), readers...)
			continue
		}
		r.add(fmt.Sprintf("%dk/s", rate/1000), "s/Mevent", cost.medians(), readers...)
		if rate == 500_000 {
			// Where wakeups take the producers' time, they may fall behind.
			r.add("output at 500k/s", "/s", output.medians(), readers...)
			r.add("lost at 500k/s", "share", lost.medians(), readers...)
		}
	}
	return nil
}

// seen is what was seen of a reader.
type seen struct {
	cpu         float64 // seconds per second of the window
	wall        float64 // seconds of the window
	window, all outputs
	timing      // of the window, if the peer is timed
}

// outputsSince is outputs, once some have succeeded since then, if there is a load.
func (r *opened) outputsSince(then outputs, loaded bool) (outputs, error) {
	if loaded {
		base := r.base
		base.attempted += then.attempted
		base.failed += then.failed
		if err := r.c.awaitOutputs(base); err != nil {
			return outputs{}, err
		}
	}
	return r.outputs()
}

// watch opens the reader, runs its loop, with a load or without one, and sees what it does for a while
// after a short start. In the end it must have read all that was not refused.
func (r *opened) watch(f flow, loaded bool, lasts time.Duration) (s seen, err error) {
	if err := r.open(); err != nil {
		return s, err
	}
	defer r.close()
	if err := r.p.start(); err != nil {
		return s, err
	}
	stop := func() error { return nil }
	if loaded {
		if stop, err = f.start(r.c); err != nil {
			return s, err
		}
		defer stop()
	}
	time.Sleep(100 * time.Millisecond)
	before, err := r.outputsSince(outputs{}, loaded)
	if err != nil {
		return s, err
	}
	first, _ := r.p.counts()
	earlier := r.p.timing().overtaken
	begin, used := time.Now(), cpuTime()
	time.Sleep(lasts)
	after, err := r.outputsSince(before, loaded)
	if err != nil {
		return s, err
	}
	used, s.wall = cpuTime()-used, time.Since(begin).Seconds()
	s.cpu, s.window = used.Seconds()/s.wall, after.since(before)
	t := r.p.timing()
	s.timing = timing{slices.Clone(t.delays[min(int(first), len(t.delays)):]), t.overtaken - earlier}
	if err := stop(); err != nil {
		return s, err
	}
	if s.all, err = r.settle(); err != nil {
		return s, err
	}
	return s, r.close()
}
