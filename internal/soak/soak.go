//go:build linux && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// patience is far more than programs that were running when they were detached take to end.
const patience = time.Minute

var errOver = errors.New("the time is over")

// soak runs one from set-up to verdict. An error means that there is no verdict.
func soak(ctx context.Context, c config) (*result, error) {
	p, err := loadPrograms()
	if err != nil {
		return nil, err
	}
	defer p.close()
	ringOptions, orderOptions := c.options()
	r, err := perfbuf.Open(p.events.FileDescriptor(), ringOptions)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s, err := r.Ordered(orderOptions)
	if err != nil {
		return nil, err
	}
	cpus := r.Options().CPUs
	load, err := startLoad(c.load, cpus, p.burst.FileDescriptor())
	if err != nil {
		return nil, err
	}
	defer load.stop()
	if err := p.attach(); err != nil {
		return nil, err
	}

	l := newLedger(p.pattern, c.time == "kernel")
	began, cpuBegan := time.Now(), cpuTime()
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.duration, errOver)
		defer cancel()
	}
	batches, err := read(ctx, s, l, progress(c, began))
	if err != nil {
		return nil, err
	}
	elapsed, cpuUsed := time.Since(began), cpuTime()-cpuBegan

	// The load still runs: programs are detached while they output.
	if err := p.detach(); err != nil {
		return nil, err
	}
	if err := load.stop(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience,
		fmt.Errorf("programs still run %v after they were detached", patience))
	defer cancel()
	// What is left has waited for the load to stop, and says nothing of latency.
	l.timed = false
	if err := s.Drain(ctx, l.deliver); err != nil {
		return nil, fmt.Errorf("drain: %w", err)
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	seen, err := p.witness()
	if err != nil {
		return nil, err
	}
	res := &result{
		Mode: c.mode, Time: c.time, Cpus: len(cpus), DurationS: elapsed.Seconds(), Batches: batches,
		CPUPercent: 100 * cpuUsed.Seconds() / elapsed.Seconds(), RingBytes: r.Options().RingBytes,
		Recursions: p.recursions,
	}
	if c.mode == "exact" {
		res.Interval = max(s.Options().BarrierInterval, 0).String()
	} else {
		res.Slack = c.slack.String()
	}
	res.fill(l, r.Stats(), seen)
	return res, nil
}

// read is Run, by batches. It returns nil when ctx is done.
func read(ctx context.Context, s *perfbuf.Ordered, l *ledger, progress func(*ledger)) (batches uint64, err error) {
	for {
		if err := s.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return batches, nil
			}
			return batches, err
		}
		if err := s.ForEach(l.deliver); err != nil {
			return batches, err
		}
		batches++
		progress(l)
	}
}

// progress returns a function that now and then tells how far a long soak is.
func progress(c config, began time.Time) func(*ledger) {
	const every = 10 * time.Second
	next := began.Add(every)
	return func(l *ledger) {
		if now := time.Now(); !c.quiet && now.After(next) {
			next = now.Add(every)
			fmt.Fprintf(os.Stderr, "soak: %v: %d events, %d reported lost, %d late, %d violations\n",
				now.Sub(began).Round(time.Second), l.samples, l.lost, l.late, l.violations)
		}
	}
}

// cpuTime is what this process has used: reader and barriers, not the load.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
