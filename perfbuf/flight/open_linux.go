package flight

import (
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/perfevent"
)

// Open begins to record the perf event array that mapFD refers to. Open duplicates it; you may
// close yours. From then on outputs to the map land in the recorder's rings, and another reader of
// the map receives nothing until it is restarted. To trigger on events, or to both read and record
// them, have programs output to two maps.
//
// Open blocks for an RCU grace period, and the first call of a process for some 10 ms more. It
// returns the errors of [perfbuf.Open], and an error if it cannot wait for a grace period. It calls
// perf_event_open with write_backward, and mmap with PROT_READ alone.
func Open(mapFD int, opts Options) (*Recorder, error) {
	var o Options // in effect
	k, err := perfevent.OpenOverwritable(mapFD, func(online []int) (s perfevent.OverwriteSetup, err error) {
		if o, s.CPUs, s.RingBytes, err = opts.effective(online); err != nil {
			return s, err
		}
		s.Follow = opts.CPUs
		s.Grace = grace.Options{Allow: grace.Set(opts.Barriers), Programs: true}
		return s, nil
	})
	if err != nil {
		return nil, kernel.Face.Error(err)
	}
	return newRecorder(overwritable{k}, o), nil
}

type overwritable struct{ *perfevent.Overwritable }

func (o overwritable) list() (all []ring) {
	for _, r := range o.Rings() {
		all = append(all, ring{r.Ring, r.Began})
	}
	return all
}
