package suite

var ringbufConservation = []entry{
	{"conservation/ringbuf-fits", "ringbufFits", ringbufFits},
	{"conservation/ringbuf-overflow", "ringbufOverflow", ringbufOverflow},
	{"conservation/ringbuf-sizes", "ringbufSizes", ringbufSizes},
	{"conservation/ringbuf-wrap", "ringbufWrap", ringbufWrap},
}

var ringbufDelivery = []entry{
	{"delivery/ringbuf-first-event", "ringbufFirst", ringbufFirst},
	{"delivery/ringbuf-idle-cpu", "ringbufIdle", ringbufIdle},
	{"delivery/ringbuf-ping-pong", "ringbufPingPong", ringbufPingPong},
	{"delivery/ringbuf-wakeup-flags", "ringbufFlags", ringbufFlags},
	{"delivery/ringbuf-quiet-record", "ringbufQuiet", ringbufQuiet},
}

var ringbufLife = []entry{
	{"life/ringbuf-close", "ringbufClose", ringbufClose},
	{"life/ringbuf-overwrite", "ringbufOverwrite", ringbufOverwrite},
}

// ringbuf starts a subject on a BPF ring buffer.
func (t *T) ringbuf(bytes int) (*Source, *Subject) {
	source := t.Source(Config{Kind: "ringbuf", Bytes: bytes})
	return source, t.Start(source)
}

// ringbufFits: What fits a BPF ring buffer is delivered, once, with all its bytes, without padding.
//
// Expected: as conservation/fits.
//
// Kernel: bpf_ringbuf_output copies the payload into the one ring of all CPUs. The record has the true length.
//
// Set-up: 100 events on each CPU.
//
// Check: each event is delivered once, and each byte of it is as output.
func ringbufFits(t *T) {
	source, s := t.ringbuf(1 << 18)
	t.OutputOnSome(source, 100, 201)
	s.Settle()
	s.Account()
}

// ringbufOverflow: A BPF ring buffer that was full is read on.
//
// Expected: all that went in comes out.
//
// Kernel: an output to a full ring buffer fails with -EAGAIN, which nobody counts.
//
// Set-up: reading is stopped, CPUs output too much, reading goes on: five times.
//
// Check: what outputs put into the buffer is delivered.
func ringbufOverflow(t *T) {
	source, s := t.ringbuf(1 << 14)
	for range 5 {
		s.Do("stop")
		t.OutputOnSome(source, 300, 64)
		s.Do("go")
		s.Settle()
	}
	s.Account()
}

// ringbufSizes: Events of all sizes come with their true length.
//
// Expected: as conservation/sizes-24-to-300, without padding.
//
// Kernel: the header of a record has its length in 30 bits.
//
// Set-up: one event of each size: 24 to 300 bytes, around powers of two, and 100,000.
//
// Check: each byte.
func ringbufSizes(t *T) {
	source, s := t.ringbuf(1 << 18)
	for i, size := range append(append(steps(24, 300, 1), around(512, 4096, 32768, 65536)...), 100_000) {
		t.Output(source, t.CPUs()[0], 1, size)
		if i%8 == 0 || size > 1000 {
			s.Settle()
		}
	}
	s.Settle()
	s.Account()
}

// ringbufWrap: A record over the buffer's end is delivered whole, wherever it is cut.
//
// Expected: as conservation/wrap-small.
//
// Kernel: the data pages are mapped twice in a row, so no record is cut for a reader that maps both.
//
// Set-up: 1,100 events of two sizes in a buffer of one page of 4 KiB, in portions that fit.
//
// Check: each byte.
func ringbufWrap(t *T) {
	source, s := t.ringbuf(4096)
	for _, size := range []int{104, 112} {
		portion := 4096 * 9 / 10 / (size + 8)
		for n := 0; n < 550; n += portion {
			t.Output(source, t.CPUs()[0], portion, size)
			s.Settle()
		}
	}
	s.Account()
}

// ringbufFirst: Single events of a BPF ring buffer are delivered, though nothing follows.
//
// Expected: as delivery/trickle.
//
// Kernel: without flags, an output wakes the reader if it has read all before (bpf_ringbuf_commit).
//
// Set-up: 100 single events.
//
// Check: each is delivered before the next is output.
func ringbufFirst(t *T) {
	source, s := t.ringbuf(1 << 16)
	cpus := t.some()
	for i := range 100 {
		t.Output(source, cpus[i%len(cpus)], 1, 64)
		s.Settle()
		if i%10 == 0 {
			sleepMillis(10)
		}
	}
}

// ringbufIdle: A reader of a BPF ring buffer that has nothing to read takes no CPU time.
//
// Expected: as delivery/idle-cpu.
//
// Kernel: as delivery/idle-cpu.
//
// Set-up: as delivery/idle-cpu.
//
// Check: as delivery/idle-cpu.
func ringbufIdle(t *T) {
	source, s := t.ringbuf(1 << 16)
	t.Output(source, t.CPUs()[0], 1, 64)
	s.Settle()
	sleepMillis(100)
	s.idle()
}

// ringbufClose: A reader of a BPF ring buffer can be closed while CPUs output, and leaves no mapping.
//
// Expected: as life/close-under-load.
//
// Kernel: the buffer is the map's; programs go on to write to it.
//
// Set-up: threads on all CPUs that never rest.
//
// Check: close is done, nothing is delivered after it, and no mapping of a map is left.
func ringbufClose(t *T) {
	source, s := t.ringbuf(1 << 18)
	stop := t.load(source, 1, 500, 0, 0)
	sleepMillis(50)
	s.Do("close")
	s.checkSilent()
	stop()
	s.checkClosed()
}
