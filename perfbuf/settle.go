package perfbuf

import "time"

// mostSettling bounds how long Close takes where a program, or a virtual CPU, does not get on: it
// takes a grace period a hundred times as long as usual.
const mostSettling = time.Second

// settle makes the counts final: nothing is written to the rings any more once the programs that
// were running at the time of unhook have ended, nobody reads them, and they are still mapped.
func (r *Reader) settle() {
	select {
	case <-r.programsEnded():
	case <-time.After(mostSettling):
	}
	outputs := r.outputStats()
	s := r.stream.Load() // was open when the reader was closed
	for i, ring := range r.all() {
		from, held, known, advance := ring.raw.Tail(), 0, ring.walk.Counts.Lost.Load(), ring.walk.Advance
		if s != nil && i < s.order.Len() {
			losses := s.order.Losses(i)
			from, held, known, advance = s.order.Scanned(i), s.order.Held(i), losses.Known, losses.Advance
		}
		samples, lost := ring.walk.Count(from)
		ring.walk.Counts.Dropped.Add(uint64(held) + samples)
		total, ok := r.kernel.Lost(i)
		if !ok {
			total = max(known+lost-min(lost, advance), outputs.full(ring.CPU()))
		}
		ring.walk.Counts.Lost.Store(total)
	}
}

// countUnreported has Stats know of the losses that no record has reported, from Linux 6.0 on: those of
// rings that nobody reads. It interrupts their CPUs.
func (r *Reader) countUnreported() {
	if r.enter() != nil {
		return
	}
	defer r.leave()
	for i, ring := range r.all() {
		if ring.walk.Claim() != nil {
			continue
		}
		total, ok := r.kernel.Lost(i)
		if known := ring.walk.Counts.Lost.Load(); ok && total > known {
			ring.walk.Counts.Lost.Store(total)
			ring.walk.Advance += total - known
		}
		ring.walk.Disclaim()
	}
}
