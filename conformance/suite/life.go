package suite

import "time"

var lifeScenarios = []entry{
	{"life/close-while-waiting", "lifeCloseWaiting", lifeCloseWaiting},
	{"life/close-twice", "lifeCloseTwice", lifeCloseTwice},
	{"life/close-stopped", "lifeCloseStopped", lifeCloseStopped},
	{"life/close-in-callback", "lifeCloseIn", lifeCloseIn},
	{"life/close-under-load", "lifeCloseLoad", lifeCloseLoad},
	{"life/close-in-callback-under-load", "lifeCloseInLoad", lifeCloseInLoad},
	{"life/close-during-flush", "lifeCloseFlush", lifeCloseFlush},
	{"life/end-of-input", "lifeEnd", lifeEnd},
	{"life/refused-after-close", "lifeRefused", lifeRefused},
	{"life/nothing-left", "lifeNothingLeft", lifeNothingLeft},
	{"life/reopen", "lifeReopen", lifeReopen},
	{"life/killed", "lifeKilled", lifeKilled},
	{"life/second-reader", "lifeSecond", lifeSecond},
	{"life/second-reader-under-load", "lifeSecondLoad", lifeSecondLoad},
	{"life/older-reader-closes", "lifeOlderCloses", lifeOlderCloses},
	{"life/older-reader-killed", "lifeOlderKilled", lifeOlderKilled},
	{"life/older-reader-pauses", "lifeOlderPauses", lifeOlderPauses},
	{"life/restart", "lifeRestart", lifeRestart},
	{"life/keep", "lifeKeep", lifeKeep},
	{"life/memory", "lifeMemory", lifeMemory},
	{"life/ring-memory", "lifeRingMemory", lifeRingMemory},
	{"life/wrong-map", "lifeWrongMap", lifeWrongMap},
	{"life/cpu-offline", "lifeOffline", lifeOffline},
	{"life/cpu-back", "lifeBack", lifeBack},
	{"life/cpu-online-later", "lifeOnline", lifeOnline},
	{"life/sparse-cpus", "lifeSparse", lifeSparse},
}

// closed checks that a closed reader has left nothing behind in its process.
func (s *Subject) checkClosed() {
	s.Check()
	p := s.Look()
	if p.Events > 0 || p.Rings > 0 {
		s.t.Failf("after close, the process still has %d perf events and %d mappings of rings", p.Events, p.Rings)
	}
}

// lifeCloseWaiting: A reader that waits for events can be closed.
//
// Expected: close ends a wait, without an event.
//
// Kernel: closing a descriptor does not end another thread's epoll_wait on it.
//
// Set-up: some events are delivered; then nothing comes, and the reader is closed.
//
// Check: close is done, and the process has no perf events and rings any longer. It ends when told to, with status 0.
func lifeCloseWaiting(t *T) { t.closes("close") }

// lifeCloseTwice: A second close does nothing.
//
// Expected: deferred and explicit closes meet.
//
// Kernel: a descriptor that is closed twice may be another one by then.
//
// Set-up: as life/close-while-waiting, closed twice.
//
// Check: as life/close-while-waiting.
func lifeCloseTwice(t *T) { t.closes("close2") }

func (t *T) closes(command string) {
	source, s := t.StartPerf("pages=16")
	t.Output(source, t.CPUs()[0], 10, 64)
	s.Settle()
	sleepMillis(50)
	s.Do(command)
	s.checkClosed()
}

// lifeCloseStopped: A reader can be closed while nobody reads.
//
// Expected: as life/close-while-waiting.
//
// Kernel: events that nobody has read go with their rings.
//
// Set-up: reading is stopped, events are output, the reader is closed.
//
// Check: as life/close-while-waiting.
func lifeCloseStopped(t *T) {
	source, s := t.StartPerf("pages=16")
	s.Do("stop")
	t.Output(source, t.CPUs()[0], 10, 64)
	s.Do("close")
	s.checkClosed()
}

// lifeCloseIn: A reader can be closed from within the callback.
//
// Expected: the event that is handled may be the one to end on.
//
// Kernel: the event's memory is the ring's, which close unmaps.
//
// Set-up: the callback closes the reader at the next event, and returns.
//
// Check: as life/close-while-waiting.
func lifeCloseIn(t *T) {
	source, s := t.StartPerf("pages=16")
	closing := s.Begin("closein")
	met := func(st *State) bool {
		return st.Done["closein"] > 0 || st.Declined != "" || len(st.Errors) > 0 || st.Exited
	}
	for end := time.Now().Add(t.patience); time.Now().Before(end); sleepMillis(5) { // the command may be slower than an event
		t.Output(source, t.CPUs()[0], 1, 64)
		done := false
		if s.With(func(st *State) { done = met(st) }); done {
			break
		}
	}
	declined := ""
	s.Finished(closing, &declined)
	if declined != "" {
		s.closed = false
		t.Cannotf("%s", declined)
	}
	s.checkClosed()
}

// lifeCloseLoad: A reader can be closed while all CPUs output.
//
// Expected: it neither crashes nor hangs, and delivers nothing after that.
//
// Kernel: programs that run go on to write to a ring until its event is gone.
//
// Set-up: threads on all CPUs that never rest.
//
// Check: as life/close-while-waiting; no event comes after close, none came twice.
func lifeCloseLoad(t *T) {
	source, s := t.StartPerf("pages=16")
	stop := t.load(source, 1, 500, 0, 0)
	sleepMillis(100)
	s.Do("close")
	s.checkSilent()
	stop()
	s.checkClosed()
}

// lifeCloseInLoad: A reader can be closed from within the callback while all CPUs output.
//
// Expected: as life/close-under-load.
//
// Kernel: as life/close-under-load.
//
// Set-up: as life/close-under-load, closed by the callback.
//
// Check: as life/close-under-load.
func lifeCloseInLoad(t *T) {
	source, s := t.StartPerf("pages=16")
	stop := t.load(source, 1, 500, 0, 0)
	sleepMillis(50)
	if why := s.Try("closein"); why != "" {
		s.closed = false
		t.Cannotf("%s", why)
	}
	s.checkSilent()
	stop()
	s.checkClosed()
}

// checkSilent checks that nothing is delivered any longer.
func (s *Subject) checkSilent() {
	before := 0
	s.With(func(st *State) { before = st.Events })
	sleepMillis(50)
	s.With(func(st *State) {
		if st.Events > before {
			s.t.Failf("%d events were delivered after close", st.Events-before)
		}
	})
}

// lifeCloseFlush: A reader can be closed while a flush is under way.
//
// Expected: neither hangs.
//
// Kernel: none of its affair.
//
// Set-up: a slow callback; events; flush, and close right behind it.
//
// Check: close is done.
func lifeCloseFlush(t *T) {
	source, s := t.StartPerf("pages=16")
	s.Do("flush") // or cannot
	s.Do("slow 100")
	t.Output(source, t.CPUs()[0], 100, 64)
	s.lenient = true // the flush may be an error now
	s.Begin("flush")
	s.Do("close")
	p := s.Look()
	if p.Events > 0 || p.Rings > 0 {
		t.Failf("after close, the process still has %d perf events and %d mappings of rings", p.Events, p.Rings)
	}
}
