package main

import "time"

// overload outputs as fast as can be on all CPUs, and sees how much of it a reader gets, and how much CPU
// time the scheduler lets it have for that. Programs count what was refused. As the readers' wakeups
// slow the producers down, each by its own measure, the shares are of different amounts: those per second say more.
func overload(r *run) error {
	readers := built(ringfold, libbpfC, cilium, ciliumWatermark, libbpfgoReader, ringfoldChannels, ayaReader, ciliumRingbuf)
	rounds, lasts := 5, time.Second
	if r.quick {
		rounds, lasts = 1, 100*time.Millisecond
	}
	all, closeAll, err := loadAll(readers, options{ringBytes: 256 << 10})
	if err != nil {
		return err
	}
	defer closeAll()
	delivered, lost, used := samples{}, samples{}, samples{}
	outputRate, deliveredRate := samples{}, samples{}
	for round := range rounds {
		for _, o := range rotated(all, round) {
			seen, err := o.watch(flow{CPUs: cpus, Size: 56}, true, lasts)
			if err != nil {
				return err
			}
			share := float64(seen.all.failed) / float64(seen.all.attempted)
			lost.add(o.name, share)
			delivered.add(o.name, 1-share) // all others were read, or watch fails
			used.add(o.name, seen.cpu)
			outputRate.add(o.name, float64(seen.window.attempted)/seen.wall)
			deliveredRate.add(o.name, float64(seen.window.attempted-seen.window.failed)/seen.wall)
		}
	}
	r.add("delivered", "share", delivered.medians(), readers...)
	r.add("lost", "share", lost.medians(), readers...)
	r.add("cpu", "s/s", used.medians(), readers...)
	r.add("output per second", "/s", outputRate.medians(), readers...)
	r.add("delivered per second", "/s", deliveredRate.medians(), readers...)
	return nil
}
