package suite

// orderFlush: A flush delivers all that was output before it, in order.
//
// Expected: a user who needs everything up to now asks for it, and order does not suffer.
//
// Kernel: what has been output before the call is published by then, on all CPUs.
//
// Set-up: two CPUs alternate, then a flush, 20 times, with a watermark that few events do not reach.
//
// Check: after each flush everything has been delivered, in the order of the outputs.
func orderFlush(t *T) {
	a, b := t.Two()
	_, s := t.StartPerf("pages=64", "order=time", "wakeup_events=500")
	script := t.script()
	for round := 1; round <= 20; round++ {
		for range 10 {
			script.output(s, 0, a, 1, 64)
			script.output(s, 0, b, 2, 64)
		}
		s.Do("flush")
		s.With(func(st *State) {
			if st.Events != round*30 {
				t.Failf("%d of %d events had been delivered when the flush was done", st.Events, round*30)
			}
		})
	}
	script.check(s)
}

// orderStopped: What comes while nobody reads is delivered in order, too.
//
// Expected: reading may stop for a while, as a program does something else. Rings fill meanwhile, and keep the order.
//
// Kernel: rings keep what nobody has read; a reader that comes back finds all of them filled.
//
// Set-up: reading stops, two CPUs alternate 300 times, reading goes on.
//
// Check: the delivered order is that of the outputs.
func orderStopped(t *T) {
	a, b := t.Two()
	s := t.Start(t.Perf(), "pages=64", "order=time")
	script := t.script()
	for range 3 {
		s.Do("stop")
		for range 300 {
			script.output(s, 0, a, 1, 64)
			script.output(s, 0, b, 1, 64)
		}
		s.Do("go")
		s.Settle()
	}
	script.check(s)
}

// orderSlowCallback: A slow user does not cost order.
//
// Expected: while a user's function takes its time, rings fill up. What then comes is still in order.
//
// Kernel: as in order/stopped. If rings overflow, the kernel drops the newest.
//
// Set-up: 100 µs in the callback for each event; two CPUs alternate in bursts.
//
// Check: the delivered order is that of the outputs.
func orderSlowCallback(t *T) {
	a, b := t.Two()
	s := t.Start(t.Perf(), "pages=64", "order=time")
	s.Do("slow 100")
	script := t.script()
	for range 30 {
		script.output(s, 0, a, 5, 64)
		script.output(s, 0, b, 5, 64)
	}
	s.Settle()
	script.check(s)
}

// orderLoss: In an ordered stream, losses come in their place.
//
// Expected: a gap is where it happened: behind the last event of that CPU before it, and before the next one.
//
// Kernel: the loss record lies just before the next record that fits, with the same time (perf_output_begin, sample_id_all).
//
// Set-up: reading is stopped; one CPU overruns its ring, another one does not. Reading goes on, and both output again.
//
// Check: between the last event before the gap and the first after it, there is a report of as many losses as the gap has.
func orderLoss(t *T) {
	a, b := t.Two()
	source, s := t.StartPerf("pages=1", "order=time")
	for range 3 {
		s.Do("stop")
		t.Output(source, b, 5, 64)
		t.Output(source, a, 200, 64)
		t.Output(source, b, 5, 64)
		s.Do("go")
		s.Settle()
		t.outputOne(source, a)
		s.Settle()
	}
	s.Account()
	s.checkTimes()
	s.checkGaps()
}
