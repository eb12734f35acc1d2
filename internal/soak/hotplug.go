//go:build linux && cgo

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ringfold/ringfold/internal/cpulist"
)

const cpuDir = "/sys/devices/system/cpu"

// plug takes CPUs other than 0 offline and back, at random, until the function that it returns,
// which leaves them all online. CPUs that are offline at first come online on the way.
func (s *session) plug() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	rnd := rand.New(rand.NewPCG(s.c.seed, 2))
	all.Go(func() {
		var cpus []int
		for _, cpu := range present() {
			if _, err := os.Stat(onlineFile(cpu)); cpu > 0 && err == nil {
				cpus = append(cpus, cpu)
			}
		}
		if len(cpus) == 0 {
			s.l.violate("-hotplug: no CPU can be taken offline here")
			return
		}
		defer func() {
			for _, cpu := range cpus {
				setOnline(cpu, true)
			}
		}()
		for sleep(ctx, rnd, time.Second) {
			cpu := cpus[rnd.IntN(len(cpus))]
			was, err := os.ReadFile(onlineFile(cpu))
			if err != nil {
				s.l.violate("-hotplug: %v", err)
				return
			}
			// A kernel may be busy, and then the next try does it.
			if on := strings.TrimSpace(string(was)) == "0"; setOnline(cpu, on) == nil && !on {
				s.offlines++
			}
		}
	})
	return func() {
		cancel()
		all.Wait()
	}
}

func onlineFile(cpu int) string { return fmt.Sprintf("%s/cpu%d/online", cpuDir, cpu) }

func setOnline(cpu int, on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	return os.WriteFile(onlineFile(cpu), []byte(value), 0o644)
}

// present lists the CPUs that there are, online or not.
func present() (cpus []int) {
	b, _ := os.ReadFile(cpuDir + "/present") // an empty list is none
	cpus, _ = cpulist.Parse(strings.TrimSpace(string(b)))
	return cpus
}
