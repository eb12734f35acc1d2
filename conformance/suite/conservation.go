package suite

import (
	"time"

	"github.com/ringfold/ringfold/internal/bpf"
)

var conservationScenarios = []entry{
	{"conservation/fits", "conservationFits", conservationFits},
	{"conservation/full-to-the-brim", "conservationBrim", conservationBrim},
	{"conservation/overflow", "conservationOverflow", conservationOverflow},
	{"conservation/loss-in-place", "conservationLossInPlace", conservationLossInPlace},
	{"conservation/loss-cpu", "conservationLossCPU", conservationLossCPU},
	{"conservation/last-losses", "conservationLastLosses", conservationLastLosses},
	{"conservation/load", "conservationLoad", conservationLoad},
	{"conservation/overload", "conservationOverload", conservationOverload},
	{"conservation/nested", "conservationNested", conservationNested},
	{"conservation/stopped", "conservationStopped", conservationStopped},
	{"conservation/pause", "conservationPause", conservationPause},
	{"conservation/pause-flush-close", "conservationPauseFlushClose", conservationPauseFlushClose},
	{"conservation/drain", "conservationDrain", conservationDrain},
	{"conservation/two-maps", "conservationTwoMaps", conservationTwoMaps},
	{"conservation/few-entries", "conservationFewEntries", conservationFewEntries},
	{"conservation/many-entries", "conservationManyEntries", conservationManyEntries},
}

// conservationFits: What fits the rings is delivered, once, with all its bytes.
//
// Expected: the least that a reader does.
//
// Kernel: bpf_perf_event_output copies the payload into the ring of the CPU it runs on, and returns 0.
//
// Set-up: 100 events on each CPU, less than a ring holds.
//
// Check: each event is delivered once, and each byte of it is as output.
func conservationFits(t *T) {
	source, s := t.StartPerf("pages=16")
	for _, cpu := range t.CPUs() {
		t.Output(source, cpu, 100, 200)
	}
	s.Settle()
	s.Account()
}

// conservationBrim: A ring that is exactly as full as can be is delivered to the last event.
//
// Expected: nothing is different when the ring is full.
//
// Kernel: the space test keeps at least one byte free, so a ring is never filled to the last byte: 127 records of 32 bytes in 4096.
//
// Set-up: reading is stopped. Events are output one by one, until the first is refused. Then it goes on. Repeated with several sizes.
//
// Check: all that went in comes out, and one loss is reported.
func conservationBrim(t *T) {
	source := t.Perf()
	cpu := t.CPUs()[0]
	s := t.Start(source, "pages=1")
	for _, size := range []int{24, 25, 100, 1000} {
		s.Do("stop")
		for before := t.Sum(source).Full; t.Sum(source).Full == before; {
			t.Output(source, cpu, 1, size)
		}
		s.Do("go")
		s.Settle()
		s.report()
	}
	s.Account()
}

// conservationOverflow: The sums are exact after rings have overflowed: attempted = delivered + lost, for each CPU.
//
// Expected: what a reader did not get, it says; the sums are exact.
//
// Kernel: an output to a full ring fails with -ENOSPC and is counted. The count is written as PERF_RECORD_LOST with the next output
// that succeeds.
//
// Set-up: reading is stopped, each CPU outputs more than its ring holds, reading goes on, each CPU outputs once more.
//
// Check: delivered events are those that outputs put into rings; reported losses are those that were refused.
//
// Known: libbpfgo reported losses of 0 for some time, aquasecurity/libbpfgo#122.
func conservationOverflow(t *T) {
	source, s := t.StartPerf("pages=2")
	for range 5 {
		s.Do("stop")
		t.OutputOnSome(source, 512, 64)
		s.Do("go")
		s.Settle()
		s.report()
	}
	s.Account()
}

// conservationLossInPlace: A loss is reported where it happened: between the events around the gap.
//
// Expected: a consumer that keeps state (open files, running processes) must know when its state went wrong, not only that it did.
//
// Kernel: PERF_RECORD_LOST lies in the ring just before the record that followed the loss.
//
// Set-up: as conservation/overflow, on two CPUs by turns.
//
// Check: each gap in a CPU's numbers has reports in it, of just as many losses.
func conservationLossInPlace(t *T) {
	source, s := t.StartPerf("pages=1")
	for range 4 {
		for _, cpu := range t.some() {
			s.Do("stop")
			t.Output(source, cpu, 300, 64)
			s.Do("go")
			s.Settle()
			t.Output(source, cpu, 3, 64)
			s.Settle()
		}
	}
	s.report()
	s.Account()
	s.checkGaps()
}

// conservationLossCPU: A loss says on which CPU it happened.
//
// Expected: losses on one CPU say something of that CPU's load, and which events may be incomplete.
//
// Kernel: each CPU's ring has its own loss records.
//
// Set-up: reading is stopped; one CPU outputs too much.
//
// Check: the reported losses are of that CPU.
func conservationLossCPU(t *T) {
	source := t.Perf()
	cpus := t.CPUs()
	cpu := cpus[len(cpus)-1]
	s := t.Start(source, "pages=1")
	s.Do("stop")
	t.Output(source, cpu, 300, 64)
	s.Do("go")
	s.Settle()
	s.report()
	s.Account()
	s.With(func(st *State) {
		if st.LostAnon[0] > 0 {
			t.Cannotf("the reader reports losses without their CPU")
		}
	})
}

// conservationLastLosses: Losses that no later event reports are known, too: at the latest when the reader closes.
//
// Expected: a burst overruns a ring, and then nothing more comes. The user should know.
//
// Kernel: the loss record is written with the next output that succeeds. If there is none, it never is. With PERF_FORMAT_LOST (Linux
// 6.0 and newer) a read of the event's descriptor returns the count at any time.
//
// Set-up: reading is stopped, a CPU outputs too much, reading goes on. Nothing follows.
//
// Check: after flush, drain and close, the reported losses are those that happened.
func conservationLastLosses(t *T) {
	if bpf.OlderThan(6, 0) {
		t.Cannotf("Linux before 6.0 has no PERF_FORMAT_LOST")
	}
	source, s := t.StartPerf("pages=1")
	s.Do("stop")
	t.Output(source, t.CPUs()[0], 300, 64)
	s.Do("go")
	s.Settle()
	s.Try("flush")
	s.Try("drain")
	s.Try("close")
	want := t.Sum(source).Full
	s.With(func(st *State) {
		if got := st.TotalLost(0); got != want {
			t.Failf("%d of %d losses were reported", got, want)
		}
	})
}

// conservationLoad: The sums are exact while all CPUs output at the same time: attempted = delivered + lost + refused.
//
// Expected: the sums are exact under load.
//
// Kernel: as conservation/overflow.
//
// Set-up: a thread on each CPU makes system calls in groups; a program at their entry outputs an event for each.
//
// Check: the sums of each CPU.
func conservationLoad(t *T) { t.conserveLoad("pages=64", 20, time.Millisecond, 0) }

// conservationOverload: The sums are exact while rings overflow all the time: attempted = delivered + lost + refused.
//
// Expected: the sums are exact when most is lost, too.
//
// Kernel: as conservation/overflow. Rings wrap at every place.
//
// Set-up: as conservation/load, with rings of 4 pages, and threads that never rest.
//
// Check: the sums of each CPU, and each byte of what was delivered.
func conservationOverload(t *T) { t.conserveLoad("pages=4", 500, 0, 0) }

// conservationNested: The sums are exact with outputs from interrupts within outputs: attempted = delivered + lost + refused.
//
// Expected: as conservation/load.
//
// Kernel: an interrupt's record may lie within what another output reserves. data_head moves when the outermost has finished.
//
// Set-up: as conservation/load, with timers on each CPU whose interrupts output too, every 100 µs.
//
// Check: the sums of each CPU; each program's events are in order.
func conservationNested(t *T) {
	t.conserveLoad("pages=64", 20, time.Millisecond, 100*time.Microsecond)
}

// conserveLoad is the three.
func (t *T) conserveLoad(pages string, group int, pause, tick time.Duration) {
	source, s := t.StartPerf(pages)
	stop := t.load(source, 1, group, pause, tick)
	t.lasts(source, tick)
	stop()
	s.Settle()
	s.report()
	s.Account()
	sum := t.Sum(source)
	t.Notef("%d events, %d lost", sum.Written, sum.Full)
}
