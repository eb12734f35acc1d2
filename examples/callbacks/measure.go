package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// result is what a way has received, and what that cost.
type result struct {
	way string
	counts
	lasted time.Duration // from the start of the workload to its end
	cpu    time.Duration // of this process
}

// compare runs the ways, one after the other, and prints what came of it.
func compare(ctx context.Context, c config, out io.Writer) error {
	quiet()
	p := newPrinter(c, out)
	for _, way := range c.ways {
		r, err := measure(ctx, c, way)
		if err == nil {
			err = p.add(r)
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break // Ctrl-C
		}
	}
	return p.end()
}

// measure runs a way.
func measure(ctx context.Context, c config, way way) (r result, err error) {
	w, err := newWorkload(ctx, c)
	if err != nil {
		return r, err
	}
	defer w.close()
	runtime.GC() // not on this one's account
	got, err := way.read(w)
	if err != nil {
		return r, fmt.Errorf("%s: %w", way.name, err)
	}
	r = result{way: way.name, counts: got, lasted: w.lasted, cpu: cpuTime() - w.cpu}
	if sum := got.received() + got.lost; sum != got.attempted {
		return r, fmt.Errorf("%s: %d events were received or lost, and %d output", way.name, sum, got.attempted)
	}
	return r, nil
}

// cpuTime is what this process has used, of all its threads.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perMillion is the CPU seconds for a million events, of those received.
func (r *result) perMillion() float64 { return r.cpu.Seconds() / float64(max(r.received(), 1)) * 1e6 }
