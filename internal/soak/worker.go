//go:build linux && cgo

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const burstFD = 3 // cmd.ExtraFiles begins there

func isWorker() bool { return os.Getenv(jobEnv) != "" }

// work does one job until standard input ends. Its threads make raw system calls, and are not
// preempted (see workerEnv): Go's runtime would add system calls of its own.
func work() {
	var j job
	must(json.Unmarshal([]byte(os.Getenv(jobEnv)), &j))
	hotplug = j.Hotplug
	rnd := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(j.Seed, n)) }
	switch j.Kind {
	case "mix":
		go syscalls(j.CPUs[0], j.Rate, rnd(1))
		go naps(j.CPUs[0], rnd(2))
		wakeEachOther(j.CPUs[0], j.CPUs[1], rnd(3))
	case "hog":
		go hog()
	case "burst":
		go bursts(j.CPUs, rnd(1))
	}
	io.Copy(io.Discard, os.Stdin)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak: load:", err)
		os.Exit(1)
	}
}

// hotplug says that CPUs go offline and come back: the kernel then moves threads elsewhere, for good.
var hotplug bool

// pin keeps the goroutine on a CPU.
func pin(cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); !hotplug { // else it may be offline
		must(err)
	}
}

func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// syscalls makes as many a second as rate says, in groups.
func syscalls(cpu, rate int, rnd *rand.Rand) {
	pin(cpu)
	owed, last := 0.0, time.Now()
	for n := 1; ; n++ {
		if hotplug && n%100 == 0 {
			pin(cpu)
		}
		if rate > 0 {
			nap(time.Duration(1+rnd.IntN(2000)) * time.Microsecond)
			now := time.Now()
			// Time that hogs took is not made up for.
			owed += min(now.Sub(last).Seconds(), 0.01) * float64(rate)
			last = now
		} else {
			owed = 1000
		}
		for ; owed >= 1; owed-- {
			unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		}
	}
}

func naps(cpu int, rnd *rand.Rand) {
	pin(cpu)
	for {
		nap(time.Duration(20+rnd.IntN(2000)) * time.Microsecond)
	}
}

// wakeEachOther has two threads send a byte to and fro.
func wakeEachOther(a, b int, rnd *rand.Rand) {
	var there, back [2]int
	must(unix.Pipe(there[:]))
	must(unix.Pipe(back[:]))
	go func() {
		pin(b)
		for {
			pass(unix.SYS_READ, there[0])
			pass(unix.SYS_WRITE, back[1])
		}
	}()
	go func() {
		pin(a)
		for {
			for range 1 + rnd.IntN(20) {
				pass(unix.SYS_WRITE, there[1])
				pass(unix.SYS_READ, back[0])
			}
			nap(time.Duration(rnd.IntN(8000)) * time.Microsecond)
		}
	}()
}

// pass reads or writes a byte.
func pass(call uintptr, fd int) {
	var b byte
	for {
		if _, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1); errno != unix.EINTR {
			return
		}
	}
}

func hog() {
	for n := 0; ; n++ { // an empty loop is what linters take for a mistake
	}
}

// bursts outputs many events at once: now and then, and in the last 20 ms of each second without a
// pause, which no small ring survives. A burst on another CPU than the caller's runs in an
// interrupt, on top of whatever runs there.
func bursts(cpus []int, rnd *rand.Rand) {
	runtime.LockOSThread()
	began := time.Now()
	for {
		most := maxBurst
		if phase := time.Since(began) % time.Second; phase < 980*time.Millisecond {
			nap(time.Duration(rnd.IntN(10_000)) * time.Microsecond)
			most = 50
		}
		if err := burst(cpus[rnd.IntN(len(cpus))], 1+rnd.IntN(most)); !hotplug { // else it may be offline
			must(err)
		}
	}
}

// testRun is the part of union bpf_attr that BPF_PROG_TEST_RUN uses.
type testRun struct {
	progFD, retval, dataSizeIn, dataSizeOut uint32
	dataIn, dataOut                         uint64
	repeat, duration, ctxSizeIn, ctxSizeOut uint32
	ctxIn, ctxOut                           uint64
	flags, cpu, batchSize, unused           uint32
}

// burstCount is the program's context. It is a global as an address in an integer keeps nothing alive.
var burstCount uint64

func burst(cpu, count int) error {
	const progTestRun, runOnCPU = 10, 1
	burstCount = uint64(count)
	attr := testRun{
		progFD: burstFD, flags: runOnCPU, cpu: uint32(cpu),
		ctxIn:     uint64(uintptr(unsafe.Pointer(&burstCount))),
		ctxSizeIn: uint32(unsafe.Sizeof(burstCount)),
	}
	at, size := unsafe.Pointer(&attr), unsafe.Sizeof(attr)
	_, _, errno := unix.RawSyscall(unix.SYS_BPF, progTestRun, uintptr(at), size)
	if errno != 0 {
		return fmt.Errorf("running a burst on CPU %d: %w", cpu, errno)
	}
	return nil
}
