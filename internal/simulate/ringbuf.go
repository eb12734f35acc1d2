package simulate

import "github.com/ringfold/ringfold/internal/ringtest"

// output is an output to a ring buffer, on its way.
type output struct {
	*record
	buf     ringtest.Record
	began   uint64 // when the record was reserved
	scanned uint64 // scannedBefore at the reservation; 0: no such scan
	at      stage
	discard bool
}

// stage is how far an output has got. Each stage is a micro-step.
type stage int

const (
	prepared stage = iota
	reserved
	stamped
	written
)

// begun begins an output on a CPU to one of the source's ring buffers.
func (k *kernel) begun(r *record, cpu int) *output {
	if r.ring = cpu; cpu >= r.to.bufs.Len() {
		r.ring = k.rnd.IntN(r.to.bufs.Len())
	}
	return &output{record: r, discard: k.rnd.IntN(16) == 0}
}

// advance does the next step of an output on a CPU. It reports whether there are more.
func (k *kernel) advance(o *output, cpu int) (more bool) {
	to := o.to
	o.at++
	switch o.at {
	case reserved:
		buf, err := to.bufs.Reserve(cpu, o.ring, o.Size)
		if err != nil {
			to.losses[cpu].failed(k.clock)
			k.truth.reuse(o.record)
			return false
		}
		o.buf, o.began, o.off = buf, k.clock, buf.Off-to.start
		o.scanned = to.scannedBefore()
		to.busy[o.ring] = append(to.busy[o.ring], o)
		if k.mutant == SkippedBusy {
			to.bufs.At(o.ring).SetHeader(buf.Off, uint32(o.Size)|ringtest.RingBufDiscarded)
		}
		if !to.Stamped {
			o.at = stamped
		}
	case stamped:
		o.Time = k.read()
		o.bytes = o.Append(o.bytes[:0])
	case written:
		o.buf.Write(0, o.bytes)
	default:
		to.finished(o)
		if o.discard {
			if o.buf.Discard(0) {
				to.bufs.Wake()
			}
			if k.mutant == DiscardAsSample {
				to.bufs.At(o.ring).SetHeader(o.buf.Off, uint32(o.Size))
			}
			k.truth.reuse(o.record)
			return false
		}
		if o.buf.Commit(0) {
			to.bufs.Wake()
		}
		k.truth.written(o.record, o.Time)
		return false
	}
	return true
}

// sleeper is a program that may sleep. No grace period waits for it.
type sleeper struct {
	to     *source
	output *output
	asleep int // kernel steps until it goes on
}

// sleepers makes a step of each sleeper that is awake.
func (k *kernel) sleepers() {
	for _, s := range k.sleep {
		switch s.asleep--; {
		case s.asleep > 0:
		case s.output != nil:
			if !k.advance(s.output, 0) {
				s.output = nil
			}
			fallthrough
		case k.stop:
			s.asleep = k.rnd.IntN(1 << k.rnd.IntN(11))
		default:
			r := k.record(s.to, 0, k.read())
			r.sleepy = true
			s.output = k.begun(r, k.rnd.IntN(len(k.cpus)))
			s.asleep = k.rnd.IntN(1 << k.rnd.IntN(9))
		}
	}
}

// asleep reports whether a program that may sleep is in an output.
func (k *kernel) asleep() bool {
	for _, s := range k.sleep {
		if s.output != nil {
			return true
		}
	}
	return false
}
