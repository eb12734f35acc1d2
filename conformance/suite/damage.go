package suite

import (
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/internal/workload"
	"golang.org/x/sys/unix"
)

var damageScenarios = []entry{
	{"conservation/unknown-record", "unknownRecord", unknownRecord},
	{"conservation/beyond-64-KiB", "beyond64K", beyond64K(65536)},
	{"conservation/beyond-64-KiB-by-far", "beyond64K", beyond64K(70000)},
	{"conservation/size-field-of-zero", "beyond64K", sizeOfZero},
}

func sleepMillis(n int) { time.Sleep(time.Duration(n) * time.Millisecond) }

// unknownRecord: A record of a type that the reader does not know is skipped, and its neighbours are delivered.
//
// Expected: kernels get new types of records. A reader goes by their size.
//
// Kernel: perf_event_header says a record's type and size.
//
// Set-up: the suite opens a perf event of its own, which reports what a thread on that CPU is called, and redirects it into the reader's
// ring (pidfd_getfd, PERF_EVENT_IOC_SET_OUTPUT). Between outputs, the thread changes its name.
//
// Check: all events around the PERF_RECORD_COMM are delivered. A reader may report that it met something unknown.
func unknownRecord(t *T) {
	source := t.Perf()
	cpu := t.CPUs()[0]
	s := t.Start(source, "pages=4")
	s.lenient = true
	t.Output(source, cpu, 1, 64)
	s.Settle()
	names, named := make(chan string), make(chan int)
	defer close(names)
	go func() {
		_ = workload.Pin(cpu)
		named <- unix.Gettid()
		for name := range names {
			b := []byte(name + "\x00")
			unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
			named <- 0
		}
	}()
	s.redirect(cpu, <-named)
	for i := range 200 {
		t.Output(source, cpu, 1, 64+i%9)
		names <- fmt.Sprintf("unknown-%d", i)
		<-named
		t.Output(source, cpu, 2, 64)
		if i%10 == 9 {
			s.Settle()
		}
	}
	s.Settle()
	s.Account()
}

// redirect has a perf event of the suite write to the subject's ring of a CPU: records of the names that a thread gets there. Those of all
// threads might fill the ring on a busy machine.
func (s *Subject) redirect(cpu, thread int) {
	pid := s.cmd.Process.Pid
	pidfd, err := unix.PidfdOpen(pid, 0)
	s.t.must(err)
	defer unix.Close(pidfd)
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	fds, err := os.ReadDir(dir)
	s.t.must(err)
	for _, clock := range []uint64{0, unix.PerfBitUseClockID} {
		event, err := unix.PerfEventOpen(&unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Clockid: unix.CLOCK_MONOTONIC,
			Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitComm | clock,
		}, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		s.t.must(err)
		s.t.Cleanup(func() { unix.Close(event) })
		for _, entry := range fds {
			if link, _ := os.Readlink(dir + entry.Name()); link != "anon_inode:[perf_event]" {
				continue
			}
			n, _ := strconv.Atoi(entry.Name())
			fd, err := unix.PidfdGetfd(pidfd, n, 0)
			s.t.must(err)
			err = unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_SET_OUTPUT, fd)
			unix.Close(fd)
			if err == nil {
				return
			}
		}
	}
	s.t.Cannotf("no perf event of the process takes another one's output")
}

// beyond64K: An output beyond what a record can hold does not end reading.
//
// Expected: one bad output, of a program that appends a packet perhaps, damages what is in that ring at that moment. The reader
// says so and goes on.
//
// Kernel: it is not refused. perf_event_header.size has 16 bits and wraps: data_head moves by the wrapped size while all bytes are
// copied, over other records. With some sizes it becomes 0. A reader that trusts sizes walks into garbage, or loops for ever.
//
// Set-up: an output of 65,536 bytes, of 70,000, or of each multiple of 8 around the size whose field becomes 0, on a CPU with rings of
// 256 KiB; then, again and again, events that fit.
//
// Check: the reader reports damage, an error or a loss, and events that fit are delivered afterwards. What they contain is checked.
//
// Known: cilium/ebpf#1633; a reader of this kind looped in cilium/cilium#5856.
func beyond64K(size int) func(*T) {
	return func(t *T) { t.oversize([]int{size}) }
}

func sizeOfZero(t *T) { t.oversize(steps(65536-64, 65536-8, 8)) }

func (t *T) oversize(sizes []int) {
	source := t.Perf()
	cpu := t.CPUs()[0]
	s := t.Start(source, "pages=64")
	s.lenient = true
	t.Output(source, cpu, 3, 64)
	s.Settle()
	for _, size := range sizes {
		t.Output(source, cpu, 1, size)
	}
	s.recover(source, cpu, "an output that no record can hold")
}

// recover checks that reading goes on after damage, and that it was reported. Events of a CPU's ring at that moment may be missing, and
// may be garbage: what is delivered up to the next events is not checked.
func (s *Subject) recover(source *Source, cpu int, after string) {
	t := s.t
	seq := t.runs(source)[cpu].Attempted
	back := func(st *State) bool {
		for i := len(st.Items) - 1; i >= 0 && i >= len(st.Items)-64; i-- {
			if item := st.Items[i]; item.Type == wire.Event && item.Payload.Seq >= seq && item.Payload.CPU == cpu && item.Payload.Size == 100 {
				return true
			}
		}
		return false
	}
	s.nudge(source, cpu, back, after)
	t.Output(source, cpu, 20, 200)
	want := seq + 20
	s.Until("the events after that are delivered", func(st *State) bool { return st.Of[0][cpu].Levels[0].Next >= want })
	s.Try("close") // some tell of damage only then
	garbage := 0
	s.With(func(st *State) {
		garbage = len(st.Problems)
		if len(st.Damaged) == 0 && len(st.Errors) == 0 && st.Losses == 0 {
			t.Failf("events went missing after %s, and the reader said nothing", after)
		}
		if st.Damaged == nil && st.Errors == nil && garbage > 0 {
			t.Failf("after %s garbage was delivered as events: %s", after, st.Problems[0])
		}
		st.Problems = nil
	})
}

// nudge outputs events that fit until back, as what comes right after damage may be lost with it.
func (s *Subject) nudge(source *Source, cpu int, back func(*State) bool, after string) {
	for range 50 {
		s.t.Output(source, cpu, 1, 100)
		ok := false
		for range 20 {
			s.With(func(st *State) { ok = back(st) })
			if ok {
				return
			}
			sleepMillis(5)
		}
	}
	if why := s.wait(back); why != "" {
		s.t.Failf("after %s, no event of that CPU is delivered: %s", after, why)
	}
}
