package stream

import (
	"fmt"
)

// payloadTimes judges whether a source's payloads have times at all.
type payloadTimes struct {
	judged bool // they have, or badTimes has returned the error
	bad    int  // samples so far with a time in the future, or without any
}

// distrusted is how many bad samples at the start rule out an accident.
const distrusted = 16

// judge notes the result of a scan of so many samples.
func (t *payloadTimes) judge(samples int, found findings) {
	if t.judged || samples == 0 {
		return
	}
	t.judged = found.keyless < samples
	t.bad += found.bad
}

// badTimes returns an error, once, if none of a source's samples had a plausible time: they use
// another clock, or the options name the wrong field. The error comes before the round's events.
func (s *Ordered) badTimes() error {
	if s.all {
		return nil // a last round must deliver everything
	}
	for _, src := range s.sources {
		if t := &src.times; !t.judged && t.bad >= distrusted {
			t.judged = true
			return fmt.Errorf("perfbuf.Stream: %s: its first %d samples are too short for a time, or have one more than a second in the future: "+
				"set the payload offset at which programs store bpf_ktime_get_ns() for a PayloadTime, bpf_ktime_get_boot_ns() for a PayloadBootTime, and use no other clock", src.Name, t.bad)
		}
	}
	return nil
}
