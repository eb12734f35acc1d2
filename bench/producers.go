package main

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

const perfArray = "perf event array"

// transport is what programs of many CPUs output to.
type transport struct {
	name   string
	to     workload.Map
	stream *perfbuf.Stream
}

// producers measures what an output costs a program while those on other CPUs output, too. A ring
// buffer has one lock, for which they wait; perf event arrays, and ring buffers of one CPU, do not
// have that. The reader reads between bursts, and is woken only then.
func producers(r *run) error {
	rounds, bursts := 25, 16
	if r.quick {
		rounds, bursts = 1, 1
	}
	const each = 1 << 20 // bytes of the rings of one CPU, which hold a round's bursts
	c, err := workload.Load(workload.Config{
		Maps: []workload.Map{workload.Events, workload.Shared, workload.Shards}, Bytes: each << bits.Len(uint(len(cpus))),
		Shards: 1024, // as many CPUs as there may be
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.FillShards(each); err != nil {
		return err
	}
	all := []transport{{name: perfArray, to: workload.Events}, {name: "ring buffer", to: workload.Shared}, {name: "ring buffer per CPU", to: workload.Shards}}
	var names []string
	for i, t := range all {
		names = append(names, t.name)
		var reader *perfbuf.Reader
		if t.to.IsRingBuf() {
			reader, err = perfbuf.OpenRingBuf(c.FD(t.to), perfbuf.Options{})
		} else {
			reader, err = perfbuf.Open(c.FD(t.to), perfbuf.Options{RingBytes: 2 * each, Wakeup: perfbuf.Wakeup{Bytes: each}})
		}
		if err != nil {
			return err
		}
		defer reader.Close()
		if all[i].stream, err = reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()}); err != nil {
			return err
		}
	}
	for n := 1; n <= len(cpus); n *= 2 {
		took := samples{}
		for round := range rounds {
			for _, t := range rotated(all, round) {
				ns, err := together(c, t.to, cpus[:n], bursts)
				if err == nil {
					err = t.stream.ForEach(func(perfbuf.Event) error { return nil })
				}
				if err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
				took.add(t.name, ns)
			}
		}
		r.add(fmt.Sprintf("CPUs: %d", n), "ns", took.medians(), names...)
	}
	return nil
}

// together has programs output bursts on CPUs at the same time, and returns what an output took.
func together(c *workload.Programs, to workload.Map, on []int, bursts int) (ns float64, err error) {
	before, err := (&collection{Programs: c}).outputs()
	if err != nil {
		return 0, err
	}
	var ready atomic.Int32
	var all sync.WaitGroup
	errs := make([]error, len(on))
	for i, cpu := range on {
		all.Go(func() {
			unpin, err := pin(cpu)
			if err != nil {
				errs[i] = err
				ready.Add(1)
				return
			}
			defer unpin()
			for ready.Add(1); int(ready.Load()) < len(on); {
				workload.Nap(0)
			}
			errs[i] = c.Output(cpu, workload.Output{Count: bursts * workload.MaxCount, Size: 56, To: to, Flags: workload.NoWakeup})
		})
	}
	all.Wait()
	after, err := (&collection{Programs: c}).outputs()
	if err = errors.Join(append(errs, err)...); err != nil {
		return 0, err
	}
	d := after.since(before)
	if d.failed > 0 {
		return 0, fmt.Errorf("%d of %d outputs failed", d.failed, d.attempted)
	}
	return float64(d.ns) / float64(d.attempted), nil
}
