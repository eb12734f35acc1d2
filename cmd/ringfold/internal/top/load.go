package top

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfload"
)

//go:embed load.bpf.o
var loadObject []byte

// load has a BPF program output events on all CPUs, unevenly, so that there is something to see.
type load struct {
	*bpfload.Programs
	all  sync.WaitGroup
	stop context.CancelFunc
}

func newLoad() (*load, error) {
	programs, err := bpfload.Load(loadObject)
	if err != nil {
		return nil, fmt.Errorf("loading the BPF program of the load: %w", err)
	}
	return &load{Programs: programs, stop: func() {}}, nil
}

func (l *load) eventsFD() int { return l.Maps["ringtop_events"].FD() }
func (l *load) lanesFD() int  { return l.Maps["ringtop_lanes"].FD() }

// start has each possible CPU output that many events per second on average, until end. failed is told what does not work.
func (l *load) start(perSecond int, failed func(error)) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil || perSecond == 0 {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	for cpu := range cpus {
		l.all.Go(func() {
			if err := l.occupy(ctx, cpu, float64(perSecond)); err != nil {
				failed(fmt.Errorf("the load on CPU %d: %w", cpu, err))
			}
		})
	}
	return nil
}

// end returns when no program runs any more. It may be called twice.
func (l *load) end() {
	l.stop()
	l.all.Wait()
}

// Close also unloads the program.
func (l *load) Close() {
	l.end()
	l.Programs.Close()
}

const (
	beat    = 2 * time.Millisecond // between two looks at how many events are due
	longest = 4 * time.Millisecond // of what is made up for: more at once would only overflow rings
	atOnce  = 64                   // events, MAX_COUNT of load.bpf.c
)

// occupy outputs on a CPU until ctx ends.
func (l *load) occupy(ctx context.Context, cpu int, perSecond float64) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	began := time.Now()
	for due, last := 0.0, began; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := time.Now()
		due += perSecond * wave(cpu, now.Sub(began)) * min(now.Sub(last), longest).Seconds()
		for last = now; due >= 1 && ctx.Err() == nil; {
			n := min(uint64(due), atOnce)
			due -= float64(n)
			err := l.RunOn(cpu, "load", [1]uint64{n})
			if errors.Is(err, syscall.ENXIO) {
				due = 0 // it is offline
			} else if err != nil {
				return err
			}
		}
	}
}

// wave is how busy a CPU is at a time, 1 on average: it goes up and down, by a rhythm of its own, with a silence in between.
func wave(cpu int, t time.Duration) float64 {
	const silence, mean = 0.08, 0.4276 // of the squared sine, less the silence, where it is above 0
	period := 16 + 3*float64(cpu%5)    // seconds
	sine := math.Sin(math.Pi * (t.Seconds()/period + 0.3 + 0.37*float64(cpu)))
	return max(sine*sine-silence, 0) / mean
}
