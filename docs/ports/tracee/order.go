//go:build ignore

// Runs Tracee and 500 short processes, and says in which order their events came:
//
//	order TRACEE ARGUMENT...
//
// It starts the processes under the name of load, another link to this program beside it, so that
// Tracee can be told to trace these and not the reading of its own output. Out of order is an event
// that comes after one with a later time. Early is an event of a thread that comes before that
// thread's fork. The delay is from an event's time until it can be read.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

type event struct {
	Timestamp time.Time
	Name      string
	Workload  struct {
		Process struct {
			Thread struct {
				HostTid int `json:"host_tid"`
			}
		}
	}
	Data []struct {
		Name  string
		Int32 int
	}
}

func (e event) arg(name string) int {
	for _, d := range e.Data {
		if d.Name == name {
			return d.Int32
		}
	}
	return 0
}

type line struct {
	at   time.Time
	text []byte
}

func main() {
	if filepath.Base(os.Args[0]) == "load" {
		load()
		return
	}
	tracee := exec.Command(os.Args[1], os.Args[2:]...)
	tracee.Stderr = os.Stderr
	out, err := tracee.StdoutPipe()
	check(err)
	check(tracee.Start())
	lines := make(chan line, 1<<20)
	go func() {
		defer close(lines)
		for in := bufio.NewReaderSize(out, 1<<20); ; {
			text, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line{time.Now(), text}
		}
	}()
	for len(lines) == 0 { // until it sees processes
		time.Sleep(100 * time.Millisecond)
		check(exec.Command("sh", "-c", ":").Run())
	}
	time.Sleep(2 * time.Second)
	before, began := cpu(tracee.Process.Pid), time.Now()
	check(exec.Command(filepath.Join(filepath.Dir(os.Args[0]), "load")).Run())
	took := time.Since(began)
	time.Sleep(2 * time.Second)
	used := cpu(tracee.Process.Pid) - before
	check(tracee.Process.Signal(os.Interrupt))
	tracee.Wait()

	var latest time.Time
	var delays []time.Duration
	var inverted, early int
	var worst time.Duration
	seen := map[int]bool{}
	for l := range lines {
		var e event
		check(json.Unmarshal(l.text, &e))
		if l.at.Before(began) || l.at.After(began.Add(took+time.Second)) {
			continue
		}
		delays = append(delays, l.at.Sub(e.Timestamp))
		if behind := latest.Sub(e.Timestamp); behind > 0 {
			inverted++
			worst = max(worst, behind)
		} else {
			latest = e.Timestamp
		}
		if e.Name == "sched_process_fork" && seen[e.arg("child_tid")] {
			early++
		}
		seen[e.Workload.Process.Thread.HostTid] = e.Name != "sched_process_exit" // numbers are used again
	}
	slices.Sort(delays)
	fmt.Printf("events %d out_of_order %d by_at_most_us %d early %d delay_p50_ms %.2f p99_ms %.2f cpu_ms %d seconds %.2f\n",
		len(delays), inverted, worst.Microseconds(), early, ms(delays[len(delays)/2]), ms(delays[len(delays)*99/100]), used.Milliseconds(), took.Seconds())
}

func load() {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 125 {
				check(exec.Command("sh", "-c", ":").Run())
			}
		})
	}
	wg.Wait()
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// cpu is a process's time, of /proc/PID/schedstat's threads.
func cpu(pid int) (sum time.Duration) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	check(err)
	for _, task := range tasks {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		var ran int64
		fmt.Sscan(string(b), &ran)
		sum += time.Duration(ran)
	}
	return sum
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
