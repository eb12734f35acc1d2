package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

const (
	realSkewCost = 5 * time.Microsecond // of an event: 200,000 events/s at most
	realSkewHot  = 180_000              // events/s on one CPU
	realSkewCold = 18_000               // on another
)

// skewReal lets two CPUs output, one ten times as much as the other. They are also those on which the
// consumer runs, so it falls behind whenever its turn is over.
func skewReal(r *run) error {
	if len(cpus) < 2 {
		return fmt.Errorf("two rings take two CPUs, and this process has %d: choose other benchmarks, with -bench", len(cpus))
	}
	rounds, lasts := 9, 400*time.Millisecond
	if r.quick {
		rounds, lasts = 1, 100*time.Millisecond
	}
	shares := samples{}
	for round := range rounds {
		for _, reader := range rotated(skewReaders, round) {
			share, err := skewOnce(reader, lasts)
			if err != nil {
				return fmt.Errorf("%s: %w", reader, err)
			}
			shares.add(reader, share)
		}
	}
	r.add("2 real rings", "share", shares.medians(), skewReaders...)
	return nil
}

// skewOnce returns the share of outputs that were lost.
func skewOnce(reader string, lasts time.Duration) (share float64, err error) {
	c, err := load(reader, options{ringBytes: orderedRingBytes})
	if err != nil {
		return 0, err
	}
	defer c.close()
	r, err := perfbuf.Open(c.FD(workload.Events), perfbuf.Options{
		RingBytes: orderedRingBytes, CPUs: cpus[:2], Schedule: schedule(reader),
	})
	if err != nil {
		return 0, err
	}
	defer r.Close()
	stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- stream.Run(ctx, func(ev perfbuf.Event) error {
			for begin := time.Now(); time.Since(begin) < realSkewCost; {
			}
			return ev.Err()
		})
	}()
	flowErr := skewFlow(c, lasts)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		return 0, errors.Join(flowErr, err)
	}
	if flowErr != nil {
		return 0, flowErr
	}
	all, err := c.outputs()
	if err != nil {
		return 0, err
	}
	return float64(all.failed) / float64(all.attempted), nil
}

// skewFlow outputs for a while, on a CPU much and on another little.
func skewFlow(c *collection, lasts time.Duration) (err error) {
	for i, rate := range []int{realSkewHot, realSkewCold} {
		stop, startErr := flow{CPUs: cpus[i : i+1], Size: orderedPayload, Rate: rate}.start(c)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if err := c.awaitOutputs(outputs{}); err != nil {
		return err
	}
	time.Sleep(lasts)
	return nil
}
