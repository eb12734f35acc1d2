//go:build linux && cgo

package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"time"

	"github.com/ringfold/ringfold/internal/quantile"
)

// resources holds the process's resources over time. Growth is a violation.
type resources struct {
	Samples    int      `json:"samples"`
	RSS        trend    `json:"rss_kib"`
	Heap       trend    `json:"heap_kib"` // live, as of the latest collection
	Go         trend    `json:"go_kib"`   // memory of Go's runtime, which -memory limits
	FDs        trend    `json:"fds"`
	Threads    trend    `json:"threads"`
	Goroutines trend    `json:"goroutines"`
	LimitKiB   int      `json:"memory_limit_kib,omitempty"`
	Grown      []string `json:"grown,omitempty"`
}

// trend is how one number went: its median in the first fifth after a warm-up, and in the last.
type trend struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Max   uint64 `json:"max"`
}

type healthSample struct{ rss, heap, all, fds, threads, goroutines uint64 }

// The fewest samples that a trend is made of, and the most that are kept.
const (
	fewest  = 50
	mostAre = 4000
)

// healthWatch samples from time to time.
type healthWatch struct {
	limit   int
	every   time.Duration
	samples []healthSample
	end     chan struct{}
	once    sync.Once
	all     sync.WaitGroup
}

func watchHealth(c config) *healthWatch {
	h := &healthWatch{limit: c.memory, end: make(chan struct{}), every: 200 * time.Millisecond}
	if c.duration > 0 {
		h.every = max(100*time.Millisecond, min(h.every, c.duration/200)) // short runs need more
	}
	h.samples = make([]healthSample, 0, mostAre) // it does not grow by itself
	h.all.Go(func() {
		for {
			select {
			case <-h.end:
				return
			case <-time.After(h.every):
			}
			if len(h.samples) == mostAre { // half of them suffice
				for i := range mostAre / 2 {
					h.samples[i] = h.samples[2*i]
				}
				h.samples, h.every = h.samples[:mostAre/2], 2*h.every
			}
			h.samples = append(h.samples, sampleHealth())
		}
	})
	return h
}

// stop ends the watch, and returns the resources that have grown.
func (h *healthWatch) stop() resources {
	h.once.Do(func() { close(h.end) })
	h.all.Wait()
	return judge(h.samples, h.limit)
}

// judge compares the first fifth after a tenth for warming up with the last. What a mode needs
// differs from what another does, so there is a bound to what counts as growth; a leak with each
// reader is far beyond it. A limit below 0 says that load may grow, and looks at descriptors alone.
func judge(samples []healthSample, limit int) resources {
	r := resources{Samples: len(samples), LimitKiB: max(limit, 0) >> 10}
	if len(samples) < fewest {
		return r
	}
	fifth := len(samples) / 5
	warm := len(samples) / 10
	trendOf := func(of func(healthSample) uint64) (t trend) {
		median := func(part []healthSample) uint64 {
			var all []uint64
			for _, s := range part {
				all = append(all, of(s))
			}
			return quantile.Of(all, 0.5)
		}
		t.First, t.Last = median(samples[warm:warm+fifth]), median(samples[len(samples)-fifth:])
		for _, s := range samples {
			t.Max = max(t.Max, of(s))
		}
		return t
	}
	for _, what := range []struct {
		name  string
		trend *trend
		of    func(healthSample) uint64
		spare uint64 // above a quarter more
		load  bool   // more load takes more: for spilled events, and while barriers hang
	}{
		{"resident memory (KiB)", &r.RSS, func(s healthSample) uint64 { return s.rss }, 48 << 10, true},
		{"live heap (KiB)", &r.Heap, func(s healthSample) uint64 { return s.heap }, 24 << 10, true},
		{"memory of Go (KiB)", &r.Go, func(s healthSample) uint64 { return s.all }, 48 << 10, true},
		// -mode sources has more descriptors for each CPU.
		{"file descriptors", &r.FDs, func(s healthSample) uint64 { return s.fds }, 8 + 8*uint64(runtime.NumCPU()), false},
		{"threads", &r.Threads, func(s healthSample) uint64 { return s.threads }, 8, true},
		{"goroutines", &r.Goroutines, func(s healthSample) uint64 { return s.goroutines }, 8, true},
	} {
		*what.trend = trendOf(what.of)
		if t := what.trend; t.Last > t.First+t.First/4+what.spare && !(what.load && limit < 0) {
			r.Grown = append(r.Grown, fmt.Sprintf("%s: the median was %d in the first fifth of the time, and is %d in the last", what.name, t.First, t.Last))
		}
	}
	if limit > 0 && r.Go.Last > uint64(limit>>10)*5/4 {
		r.Grown = append(r.Grown, fmt.Sprintf("Go has %d KiB of memory, more than its limit of %d", r.Go.Last, limit>>10))
	}
	return r
}

func sampleHealth() (s healthSample) {
	m := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(m)
	s.heap = m[0].Value.Uint64() >> 10
	s.all = (m[1].Value.Uint64() - m[2].Value.Uint64()) >> 10
	s.goroutines = uint64(runtime.NumGoroutine())
	// In pages: all, resident, ...
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(b); len(fields) > 1 {
			pages, _ := strconv.ParseUint(string(fields[1]), 10, 64)
			s.rss = pages * uint64(os.Getpagesize()) >> 10
		}
	}
	s.fds, s.threads = entries("/proc/self/fd"), entries("/proc/self/task")
	return s
}

// entries is how many a directory has.
func entries(dir string) uint64 {
	list, _ := os.ReadDir(dir)
	return uint64(len(list))
}
