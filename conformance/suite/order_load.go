package suite

import (
	"time"

	"github.com/ringfold/ringfold/internal/workload"
)

var orderLoadScenarios = []entry{
	{"order/parallel", "orderParallel", orderParallel},
	{"order/nested", "orderNested", orderNested},
	{"order/overcommit", "orderOvercommit", orderOvercommit},
	{"order/overload", "orderOverload", orderOverload},
}

// orderParallel: Events that all CPUs output at the same time come in the order of their times.
//
// Expected: times never go back from one event to the next.
//
// Kernel: a program reads the clock, and only later publishes its record. Meanwhile, others publish records with later times. However
// long a reader waits by the clock, a CPU may take longer, in a virtual machine above all. A grace period waits for programs.
//
// Set-up: a thread on each CPU makes system calls in groups; a program at their entry outputs an event for each.
//
// Check: the times that the reader tells never decrease; attempted = delivered + lost + refused.
func orderParallel(t *T) { t.orderLoad("pages=256", 1, 20, time.Millisecond, 0, 0) }

// orderNested: Events from interrupts, which come between an event's clock and its record, come in the order of their times.
//
// Expected: as order/parallel. One ring alone is not sorted: a merge that takes that for granted gets order wrong.
//
// Kernel: preemption is off from the clock read to publication, but interrupts are not. An interrupt's record is reserved
// after the one that it interrupts, or before, with times the other way round. Measured: about 1 in 10^5 records is out of place.
//
// Set-up: as order/parallel, with timers on each CPU whose interrupts output too, every 100 µs.
//
// Check: as order/parallel.
func orderNested(t *T) { t.orderLoad("pages=256", 1, 20, time.Millisecond, 100*time.Microsecond, 0) }

// orderOvercommit: Order holds where threads compete for CPUs.
//
// Expected: as order/parallel, on a machine that is too busy for anything to be on time.
//
// Kernel: the reader's own threads wait for a CPU, so rings fill, and its timers are late.
//
// Set-up: as order/parallel, with four threads on each CPU, and two more that only spin.
//
// Check: as order/parallel.
func orderOvercommit(t *T) { t.orderLoad("pages=256", 4, 10, 2*time.Millisecond, 0, 2) }

// orderOverload: Order holds while rings overflow.
//
// Expected: what is delivered is in order, and what is not is counted.
//
// Kernel: a full ring drops the newest output (-ENOSPC), and the kernel counts it.
//
// Set-up: as order/parallel, with rings of 4 pages, and threads that never rest.
//
// Check: as order/parallel.
func orderOverload(t *T) { t.orderLoad("pages=4", 1, 500, 0, 0, 0) }

// orderLoad is the four.
func (t *T) orderLoad(pages string, threads, group int, pause, tick time.Duration, spinners int) {
	source, s := t.StartPerf(pages, "order=time")
	stop := t.load(source, threads, group, pause, tick)
	if spinners > 0 {
		t.threads(t.CPUs(), spinners, 0, 0)
	}
	t.lasts(source, tick)
	stop()
	s.Settle()
	s.report()
	s.checkTimes()
	s.Account()
}

// lasts has a load go on for a second, and on a busy machine until it is one: until system calls have output, and interrupts, if they
// should.
func (t *T) lasts(source *Source, tick time.Duration) {
	time.Sleep(t.duration(time.Second))
	for end := time.Now().Add(t.patience); ; sleepMillis(10) {
		sum := t.Sum(source)
		calls, ticks := sum.Sources[workload.Syscall], sum.Sources[workload.Tick]
		if calls > 0 && (tick == 0 || ticks > 0) {
			return
		}
		if time.Now().After(end) {
			t.Cannotf("not on this machine: %d outputs by system calls, %d by timers", calls, ticks)
		}
	}
}

// duration is how long a load lasts.
func (t *T) duration(d time.Duration) time.Duration {
	if t.short {
		return d / 2
	}
	return d
}
