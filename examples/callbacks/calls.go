package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// callsEnv tells a process that it is the workload, and at what rate it is to make system calls.
const callsEnv = "RINGFOLD_CALLBACKS_RATE"

// makeCalls is the workload's process. It reads orders, line by line, and answers when they are done.
func makeCalls(rate string, orders io.Reader, answers io.Writer) error {
	perSecond, err := strconv.Atoi(rate)
	if err != nil {
		return fmt.Errorf("%s: %w", callsEnv, err)
	}
	cpus, err := usableCPUs()
	if err != nil {
		return err
	}
	perSecond = (perSecond + len(cpus) - 1) / len(cpus) // on each
	var stop chan struct{}
	var all sync.WaitGroup
	for in := bufio.NewScanner(orders); in.Scan(); {
		switch in.Text() {
		case "once":
			onEach(cpus, &all, func() { call(0) })
			all.Wait()
		case "start":
			stop = make(chan struct{})
			onEach(cpus, &all, func() { paced(perSecond, stop) })
		case "stop":
			close(stop)
			all.Wait()
		}
		if _, err := fmt.Fprintln(answers, "done"); err != nil {
			return err
		}
	}
	return nil
}

// call makes the i-th system call.
func call(i int) { unix.RawSyscall(uintptr(kinds[i%len(kinds)].nr), 0, 0, 0) }

// paced makes so many system calls per second, until stop is closed: or as many as it can, if that is 0.
func paced(perSecond int, stop <-chan struct{}) {
	const tick = time.Millisecond
	begin := time.Now()
	for made := 0; ; {
		due, pause := made+100, time.Duration(0)
		if perSecond > 0 {
			due, pause = int(time.Since(begin).Seconds()*float64(perSecond)), tick
		}
		for ; made < due; made++ {
			call(made)
		}
		select {
		case <-stop:
			return
		default:
			time.Sleep(pause)
		}
	}
}

// usableCPUs are those that the process may run on.
func usableCPUs() (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	for cpu := range 64 * len(set) {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// onEach calls f on each CPU, from a thread that stays there, and ends with it.
func onEach(cpus []int, all *sync.WaitGroup, f func()) {
	for _, cpu := range cpus {
		all.Go(func() {
			runtime.LockOSThread()
			var set unix.CPUSet
			set.Set(cpu)
			// A CPU that has gone offline is left out.
			if err := unix.SchedSetaffinity(0, &set); err == nil {
				f()
			} else if !errors.Is(err, unix.EINVAL) {
				fmt.Fprintf(os.Stderr, "callbacks: workload on CPU %d: %v\n", cpu, err)
			}
		})
	}
}
