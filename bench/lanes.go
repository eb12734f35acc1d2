package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// Of the floods of lanes: a claim about a minute takes longer ones than a comparison of six readers.
var (
	floods       = flag.Int("floods", 10, "of lanes: how many floods each reader gets")
	floodLasts   = flag.Duration("flood", 3*time.Second, "of lanes: how long a flood lasts")
	floodTimes   = flag.Float64("flood-times", 10, "of lanes: how many times what a reader can handle all CPUs output together")
	floodRing    = flag.Int("flood-ring", 256, "of lanes: KiB of each ring, whose part for important events must hold what comes while the reader does not run")
	floodReaders = flag.String("flooded", "", "of lanes: which readers, separated by commas (default all)")
)

// floodTakes is how long readers are busy with each event of a flood: so one cannot handle more than 200,000 a second.
const floodTakes = 5 * time.Microsecond

// lanes measures what lanes cost the program that outputs, where nothing is shed: ns per output, beside the plain helper. Then all CPUs
// output ten times what a reader can handle; one event of 257 is important. Lost is the share of the important ones that found no room.
// Readers without lanes lose what comes next.
func lanes(r *run) error {
	readers := built(ringfoldLanes, ringfold, libbpfC, cilium, libbpfgoReader, ayaReader)
	if *floodReaders != "" {
		wanted := strings.Split(*floodReaders, ",")
		readers = slices.DeleteFunc(readers, func(reader string) bool { return !slices.Contains(wanted, reader) })
		if len(readers) < len(wanted) {
			return fmt.Errorf("-flooded=%s: of these there are only %q", *floodReaders, readers)
		}
	}
	rounds, lasts := *floods, *floodLasts
	if r.quick {
		rounds, lasts = 1, 100*time.Millisecond
	}
	all, closeAll, err := loadAll(readers, options{ringBytes: *floodRing << 10, takes: floodTakes, lanes: true})
	if err != nil {
		return err
	}
	defer closeAll()
	cost := samples{}
	if err := all[0].laneCost(100*rounds, cost); err != nil {
		return err
	}
	r.add("an output", "ns", cost.medians(), ringfoldLanes, "bpf_perf_event_output")
	lost, worst, others := samples{}, map[string]figure{}, samples{}
	for round := range rounds {
		for _, o := range rotated(all, round) {
			important, other, err := o.flooded(lasts)
			if err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
			lost.add(o.name, important)
			others.add(o.name, other)
			worst[o.name] = figure{value: max(worst[o.name].value, important)}
		}
	}
	r.add("important, lost", "share", lost.medians(), readers...)
	r.add("important, lost in the worst run", "share", worst, readers...)
	r.add("others, shed or lost", "share", others.medians(), readers...)
	return nil
}

// laneCost times outputs into rings that have room, by the clock of the program.
func (r *opened) laneCost(rounds int, cost samples) error {
	const each, ringBytes = 512, 1 << 20
	reader, err := perfbuf.Open(r.c.FD(workload.Events), perfbuf.Options{
		RingBytes: ringBytes, LanesFD: r.c.LanesFD(workload.Events), Lanes: []int{50, 100}, Wakeup: perfbuf.Wakeup{Bytes: ringBytes / 2}})
	if err != nil {
		return err
	}
	p, err := newRingfoldPeer(reader, options{})
	if err != nil {
		return err
	}
	defer p.close()
	for round := range rounds {
		for how := range 2 {
			plain := how == round%2
			took, err := r.c.Lane(cpus[0], 0, each, plain)
			if err != nil {
				return err
			}
			name := ringfoldLanes
			if plain {
				name = "bpf_perf_event_output"
			}
			cost.add(name, float64(took)/each)
			if err := p.drain(each); err != nil {
				return err
			}
		}
	}
	return nil
}

// flooded returns which share of the important events was lost in a flood, and of the others.
func (r *opened) flooded(lasts time.Duration) (important, others float64, err error) {
	if err := r.open(); err != nil {
		return 0, 0, err
	}
	defer r.close()
	if err := r.p.start(); err != nil {
		return 0, 0, err
	}
	var before, after [2]laneCount
	if err := r.countLanes(&before); err != nil {
		return 0, 0, err
	}
	const each = 256 // others than the important one
	pause := time.Duration(float64(len(cpus)*(1+each)*int(floodTakes)) / *floodTimes)
	var floods sync.WaitGroup
	var over atomic.Bool
	errs := make([]error, len(cpus))
	for i, cpu := range cpus {
		floods.Go(func() {
			begun := time.Now()
			for due := time.Duration(0); !over.Load() && errs[i] == nil; due += pause {
				time.Sleep(due - time.Since(begun))
				_, errs[i] = r.c.Lane(cpu, 1, each, false)
			}
		})
	}
	time.Sleep(lasts)
	over.Store(true)
	floods.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	if err := r.countLanes(&after); err != nil {
		return 0, 0, err
	}
	for i := range after {
		after[i].attempted, after[i].written = after[i].attempted-before[i].attempted, after[i].written-before[i].written
	}
	fmt.Fprintf(os.Stderr, "lanes: %s, a flood of %v: %d of %d important events lost, %d of %d others lost or shed\n",
		r.name, lasts, after[1].lost(), after[1].attempted, after[0].lost(), after[0].attempted)
	return after[1].share(), after[0].share(), r.close()
}

type laneCount struct{ attempted, written uint64 }

// lost is how many outputs were not written.
func (c laneCount) lost() uint64 { return c.attempted - c.written }

func (c laneCount) share() float64 { return float64(c.lost()) / float64(c.attempted) }

func (r *opened) countLanes(lanes *[2]laneCount) (err error) {
	for i := range lanes {
		if lanes[i].attempted, lanes[i].written, err = r.c.LaneCount(i); err != nil {
			return err
		}
	}
	return nil
}
