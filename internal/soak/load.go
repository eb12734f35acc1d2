//go:build linux && cgo

package main

import "github.com/ringfold/ringfold/internal/workload"

// loadConfig is the load to run next to the reader.
type loadConfig struct {
	Workers, Hogs, Rate int
	Bursts              bool
	Hotplug             bool // CPUs go offline and come back
}

// jobs are what processes of the load do.
func (c loadConfig) jobs(cpus []int) (jobs []workload.Job) {
	for i := range c.Workers {
		jobs = append(jobs, workload.Job{Kind: "mix", CPUs: []int{cpus[i%len(cpus)], cpus[(i+1)%len(cpus)]}, Rate: c.Rate})
	}
	for range c.Hogs {
		jobs = append(jobs, workload.Job{Kind: "hog"})
	}
	if c.Bursts {
		jobs = append(jobs, workload.Job{Kind: "burst", CPUs: cpus})
	}
	for i := range jobs {
		jobs[i].Seed, jobs[i].Hotplug = uint64(i+1), c.Hotplug
	}
	return jobs
}
