package main

/*
#include "spin.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/grace"

	"github.com/ringfold/ringfold/internal/workload"
)

// noBarriers is what barriers are compared to, in results.
const noBarriers = "no-barriers"

// harm measures what an exact stream's barriers cost those who have nothing to do with it: a program that wants
// the last CPU for itself, and one that mounts file systems. Barriers are made on the first CPU.
func harm(r *run) error {
	first, last, err := apart()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "harm: CPU %d may be disturbed; isolated: %s, nohz_full: %s\n", last, listed("isolated"), listed("nohz_full"))
	rounds, spins, mounts := 7, 400*time.Millisecond, 60*time.Millisecond
	if r.quick {
		rounds, spins, mounts = 1, 20*time.Millisecond, 10*time.Millisecond
	}
	m, err := newMounter(last)
	if err != nil {
		return err
	}
	defer m.close()
	for _, pace := range []string{"default interval", "no interval"} {
		throughput, longest, calls, mount, made := samples{}, samples{}, samples{}, samples{}, samples{}
		var names []string
		for round := range rounds {
			undisturbed := 0.0
			for i, p := range append([]provider{{name: noBarriers}}, providers()...) {
				if round == 0 {
					names = append(names, p.name)
				}
				interval := barrierInterval
				if pace == "no interval" {
					interval = 0
				}
				b, err := p.barriers(first, interval)
				if err != nil {
					return err
				}
				before, began := interrupts(last), time.Now()
				s, err := spinOn(last, spins)
				took := time.Since(began).Seconds()
				after := interrupts(last)
				pairs, mountErr := m.pairs(mounts)
				count, elapsed := b.stop()
				if err := errors.Join(err, mountErr, b.err); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				speed := float64(s.iterations) / (took - float64(s.away)/1e9)
				if i == 0 {
					undisturbed = speed
				}
				throughput.add(p.name, speed/undisturbed)
				longest.add(p.name, float64(s.longest)/1000)
				calls.add(p.name, float64(after-before)/took)
				mount.add(p.name, float64(pairs.Nanoseconds())/1000)
				made.add(p.name, float64(count)/elapsed.Seconds())
			}
		}
		r.add(pace, "throughput", throughput.medians(), names...)
		r.add(pace, "us longest gap", longest.medians(), names...)
		r.add(pace, "interrupts/s", calls.medians(), names...)
		r.add(pace, "us mount+umount", mount.medians(), names...)
		r.add(pace, "/s", made.medians(), names...)
	}
	return nil
}

// apart are the CPU that makes barriers, and the one that they may disturb. The latter may be isolated: no CPU of
// this process by itself.
func apart() (first, last int, err error) {
	online, err := cpulist.Online(cpulist.Dir)
	if err != nil {
		return 0, 0, err
	}
	first, last = cpus[0], online[len(online)-1]
	if first == last {
		return 0, 0, errors.New("it takes two CPUs: choose other benchmarks, with -bench")
	}
	return first, last, nil
}

// listed is a list of CPUs that the kernel has, as text.
func listed(which string) string {
	b, err := os.ReadFile(cpulist.Dir + which)
	if text := strings.TrimSpace(string(b)); err == nil && text != "" {
		return text
	}
	return "none"
}

// barriers waits for grace periods on a CPU, with at least an interval between their starts.
type barriers struct {
	count int
	begin time.Time
	err   error
	quit  chan struct{}
	all   sync.WaitGroup
}

func (p provider) barriers(cpu int, interval time.Duration) (*barriers, error) {
	b := &barriers{begin: time.Now(), quit: make(chan struct{})}
	if p.name == noBarriers {
		return b, nil
	}
	opened := make(chan error)
	b.all.Go(func() {
		// A thread that a provider has of its own begins on this CPU too.
		_, err := pin(cpu) // the thread ends with its goroutine
		var wait grace.Provider
		if err == nil {
			wait, err = grace.Open(grace.Options{Allow: p.allow})
		}
		opened <- err
		if err != nil {
			return
		}
		defer wait.Close()
		b.begin = time.Now()
		for next := b.begin; b.err == nil; b.count++ {
			select {
			case <-b.quit:
				return
			default:
			}
			if d := time.Until(next); d > 0 {
				workload.Nap(d)
			}
			next = time.Now().Add(interval)
			b.err = wait.Wait()
		}
	})
	return b, <-opened
}

// stop ends it, and says how many there were in which time.
func (b *barriers) stop() (int, time.Duration) {
	close(b.quit)
	b.all.Wait()
	return b.count, time.Since(b.begin)
}

type spun struct{ iterations, longest, away uint64 }

// spinOn keeps a CPU busy. Its loop is in C: Go's runtime would interrupt it.
func spinOn(cpu int, lasts time.Duration) (spun, error) {
	unpin, err := pin(cpu)
	if err != nil {
		return spun{}, err
	}
	defer unpin()
	var s C.struct_spun
	C.spin(C.uint64_t(lasts.Nanoseconds()), &s)
	return spun{uint64(s.iterations), uint64(s.longest), uint64(s.away)}, nil
}

// interrupts is how many function-call interrupts a CPU has had; 0 where the kernel does not tell.
func interrupts(cpu int) (n uint64) {
	b, _ := os.ReadFile("/proc/interrupts")
	column := -1
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if column < 0 {
			column = slices.Index(fields, fmt.Sprintf("CPU%d", cpu)) + 1 // behind the line's name
			continue
		}
		if strings.Contains(line, "unction call interrupts") && column > 0 && column < len(fields) {
			fmt.Sscan(fields[column], &n)
		}
	}
	return n
}
