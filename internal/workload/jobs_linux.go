package workload

import (
	"math/rand/v2"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Nap blocks the thread, and so takes no longer than the kernel needs. A signal may end it early.
func Nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// syscalls makes as many a second as the rate says, in groups.
func (j Job) syscalls(rnd *rand.Rand) {
	owed, last := 0.0, time.Now()
	for n := 1; ; n++ {
		if j.Hotplug && n%100 == 0 {
			j.pin(j.CPUs[0])
		}
		if j.Rate > 0 {
			Nap(time.Duration(1+rnd.IntN(2000)) * time.Microsecond)
			now := time.Now()
			// Time that hogs took is not made up for.
			owed += min(now.Sub(last).Seconds(), 0.01) * float64(j.Rate)
			last = now
		} else {
			owed = 1000
		}
		for ; owed >= 1; owed-- {
			unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		}
	}
}

func (j Job) naps(rnd *rand.Rand) {
	for {
		Nap(time.Duration(20+rnd.IntN(2000)) * time.Microsecond)
	}
}

// wakeEachOther has two threads send a byte to and fro.
func (j Job) wakeEachOther(on func(cpu int, f func()), rnd *rand.Rand) {
	var there, back [2]int
	must(unix.Pipe(there[:]))
	must(unix.Pipe(back[:]))
	on(j.CPUs[1], func() {
		for {
			pass(unix.SYS_READ, there[0])
			pass(unix.SYS_WRITE, back[1])
		}
	})
	on(j.CPUs[0], func() {
		for {
			for range 1 + rnd.IntN(20) {
				pass(unix.SYS_WRITE, there[1])
				pass(unix.SYS_READ, back[0])
			}
			Nap(time.Duration(rnd.IntN(8000)) * time.Microsecond)
		}
	})
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
// interrupt, on top of the code that runs there.
func (j Job) bursts(rnd *rand.Rand) {
	runtime.LockOSThread()
	began := time.Now()
	for {
		most := MaxCount
		if phase := time.Since(began) % time.Second; phase < 980*time.Millisecond {
			Nap(time.Duration(rnd.IntN(10_000)) * time.Microsecond)
			most = 50
		}
		o := j.Output
		o.Count = 1 + rnd.IntN(most)
		if err := o.On(progFD, j.CPUs[rnd.IntN(len(j.CPUs))]); !j.Hotplug { // else maybe offline
			must(err)
		}
	}
}

// flow outputs on one CPU, from a thread on that CPU: so no other one is interrupted, and the time
// goes to this process.
func (j Job) flow(cpu int) {
	// A program is not preempted while it runs, so runs are short: 256 events with a wakeup each
	// take 1 ms.
	const most, tick = 256, time.Millisecond
	o := j.Output
	for o.Count = most; j.Rate == 0; {
		must(o.On(progFD, cpu))
	}
	done, begin := 0, time.Now()
	for {
		due := int(time.Since(begin).Seconds()*float64(j.Rate)/float64(len(j.CPUs))) - done
		for n := due; n > 0; n -= most {
			o.Count = min(n, most)
			must(o.On(progFD, cpu))
		}
		done += max(due, 0)
		Nap(tick - time.Since(begin)%tick)
	}
}

// calls makes system calls in groups.
func (j Job) calls() {
	for {
		for range j.Group {
			unix.RawSyscall(uintptr(j.Syscall), 0, 0, 0)
		}
		if j.Pause > 0 {
			Nap(j.Pause)
		}
	}
}
