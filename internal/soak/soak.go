//go:build linux && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
)

// patience is far more than programs that were running when they were detached take to end.
const patience = time.Minute

// stretch is about how long -mode all stays with a mode before it goes on to the next.
const stretch = 10 * time.Second

var errOver = errors.New("the time is over")

// session is one run of the soak.
type session struct {
	c     config
	p     *programs
	l     *ledger
	load  workload.Processes
	spawn *spawner
	rnd   *rand.Rand
	exact bool // the kernel reports losses that no record has reported
	cpus  []int

	modes  map[string]*modeResult
	group  []*generation        // those whose accounts are to be settled
	next   *generation          // has been opened before the one before it was free
	before []*generation        // the last group
	base   []workload.CPUCounts // when accounts were settled

	began, ended      time.Time
	cpuBegan, cpuUsed time.Duration
	told              time.Time
	offlines          uint64 // CPUs that were taken offline
}

// soak runs one from set-up to verdict. An error means that there is no verdict.
func soak(ctx context.Context, c config) (*result, error) {
	if c.memory > 0 {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(c.memory)))
	}
	p, err := loadPrograms()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	s := &session{c: c, p: p, rnd: rand.New(rand.NewPCG(c.seed, 0)), modes: map[string]*modeResult{}}
	if s.base, err = p.Counts(); err != nil {
		return nil, err
	}
	_, major := kernel()
	s.exact = major >= 6
	s.l = newLedger(len(s.base), rand.New(rand.NewPCG(c.seed, 1)))
	defer func() {
		s.load.Stop()
		if s.spawn != nil {
			s.spawn.stop()
		}
	}()
	health := watchHealth(c)
	defer health.stop()
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	seen, err := p.Counts()
	if err != nil {
		return nil, err
	}
	res := s.result(seen)
	res.Resources = health.stop()
	for _, grown := range res.Resources.Grown {
		s.l.violate("%s", grown)
	}
	res.conclude(s.l)
	return res, nil
}

// run goes through the modes, each for its part of the time.
func (s *session) run(ctx context.Context) error {
	modes := []string{s.c.mode}
	if s.c.mode == "all" {
		modes = modeNames
	}
	s.began, s.cpuBegan = time.Now(), cpuTime()
	s.told = s.began
	if s.c.hotplug {
		defer s.plug()()
	}
	parts, part := len(modes), s.c.duration
	if len(modes) > 1 {
		parts *= max(1, int((s.c.duration+stretch*time.Duration(len(modes))/2)/(stretch*time.Duration(len(modes)))))
		part = s.c.duration / time.Duration(parts)
	}
	for i := 0; ; i++ {
		until, last := s.began.Add(part*time.Duration(i+1)), i == parts-1
		if s.c.duration == 0 { // until ctx is done
			until, last = time.Now().Add(stretch), len(modes) == 1
			if last {
				until = time.Now().Add(100 * 365 * 24 * time.Hour)
			}
		}
		done, err := s.part(ctx, modes[i%len(modes)], until, last)
		if err != nil || done {
			return err
		}
	}
}

// part reads by one mode for its time. It reports whether all is over.
func (s *session) part(ctx context.Context, mode string, until time.Time, last bool) (over bool, err error) {
	m := s.mode(mode)
	began, violations := time.Now(), s.l.violations
	defer func() {
		m.Seconds += time.Since(began).Seconds()
		m.Violations += s.l.violations - violations
	}()
	for first := true; ; first = false {
		now := time.Now()
		left := until.Sub(now)
		length, end := left, shutdown
		if s.c.reopen {
			length = time.Duration(s.rnd.Int64N(int64(s.c.life)))
			if s.rnd.IntN(8) == 0 { // hardly open
				length /= 100
			}
			end = ending(s.rnd.IntN(int(drained)))
			if mode == "sources" {
				end = shutdown // a ring buffer keeps its records
			}
			if mode == "rings" && end == reopened { // its function has no say
				end = closed
			}
		}
		final := length >= left || left <= 0
		if final {
			length = max(left, 0)
			if end == reopened {
				end = shutdown
			}
			if last {
				end = drained
			}
		}
		if first && final { // there is time for something
			length = max(length, 50*time.Millisecond)
		}
		if err := s.generation(ctx, mode, now.Add(length), end); err != nil {
			return true, fmt.Errorf("%s: %w", mode, err)
		}
		if !s.ended.IsZero() {
			return true, nil
		}
		if final {
			return false, nil
		}
	}
}

// mode returns the account of a mode.
func (s *session) mode(name string) *modeResult {
	m := s.modes[name]
	if m == nil {
		m = &modeResult{Mode: name, Conserved: true}
		s.modes[name] = m
	}
	return m
}

// start starts the load and the programs when the first reader is open.
func (s *session) start(g *generation) error {
	if s.spawn != nil {
		return nil
	}
	s.cpus = g.r.Options().CPUs
	if s.c.hotplug {
		s.cpus = present()
	}
	var err error
	if s.load, err = workload.Start(s.p.ProgFD("burst"), s.c.load.jobs(s.cpus)...); err != nil {
		return err
	}
	if s.spawn, err = startSpawner(s.c.spawn, s.c.seed); err != nil {
		return err
	}
	return s.p.Attach(workload.Traced...)
}

// progress prints now and then how far a long soak is.
func (s *session) progress() {
	const every = 10 * time.Second
	now := time.Now()
	if s.c.quiet || now.Sub(s.told) < every {
		return
	}
	s.told = now
	var t tally
	for _, m := range s.modes {
		t.add(&m.tally)
	}
	for i := range s.l.accounts {
		t.add(&s.l.accounts[i].tally)
	}
	fmt.Fprintf(os.Stderr, "soak: %v: %d events, %d reported lost, %d late, %d violations\n",
		now.Sub(s.began).Round(time.Second), t.samples, t.lost, t.late, s.l.violations)
}

// cpuTime is what this process has used: reader, barriers, and making children; not the load.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
