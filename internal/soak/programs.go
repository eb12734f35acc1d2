//go:build linux && cgo

package main

import (
	"github.com/ringfold/ringfold/internal/workload"
)

const shardBytes = 16 << 10 // small enough to lose something

// traced are the sources of events.
var traced = append(workload.Traced, workload.Burst)

const levels = workload.Levels

type programs struct {
	*workload.Programs
	recursions uint64 // runs that the kernel refused, as the program was running on that CPU
}

// loadPrograms loads them, without attaching any. This process is the reader, which they leave out.
func loadPrograms() (*programs, error) {
	p, err := workload.Load(workload.Config{
		Maps:     []workload.Map{workload.Events, workload.More, workload.Shared, workload.Shards},
		Programs: append(workload.TracePrograms(), "burst"), Shards: 512,
	})
	if err != nil {
		return nil, err
	}
	if err = p.FillShards(shardBytes); err == nil {
		err = p.Aim(workload.Events, true)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return &programs{Programs: p}, nil
}

// detach detaches them. Those that are running go on to their end.
func (p *programs) detach() error {
	p.recursions += p.Misses()
	return p.Detach()
}
