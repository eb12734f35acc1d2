package order

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/merge"
)

// times says whether a source's payloads have times at all.
type times struct {
	judged bool // they have, or the user has been told
	bad    int  // samples, of all so far, with times that no clock shows yet, or without any
}

// distrusted is how many first samples with such times are no accident.
const distrusted = 16

// judge takes into account what a scan has found among so many samples.
func (t *times) judge(samples int, found merge.Found) {
	if t.judged || samples == 0 {
		return
	}
	t.judged = found.Keyless < samples
	t.bad += found.Bad
}

// badTimes returns an error, once, if none of a source's samples had a time that can be believed: they have another clock's, or another field
// was named. It comes before the events of the round.
func (s *Stream) badTimes() error {
	if s.all {
		return nil // it may be the last round, which is to deliver all there is
	}
	for _, src := range s.sources {
		if t := &src.times; !t.judged && t.bad >= distrusted {
			t.judged = true
			return fmt.Errorf("perfbuf.Stream: %s: its first %d samples are too short for a time, or have one more than a second in the future of CLOCK_MONOTONIC: "+
				"set the payload offset at which programs store bpf_ktime_get_ns(), and use no other clock", src.Name, t.bad)
		}
	}
	return nil
}
