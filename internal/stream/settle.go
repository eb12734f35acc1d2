package stream

import "github.com/ringfold/ringfold/internal/raw"

// Settle makes the counts of a mapped ring final, once nobody reads or writes it. It drops the
// contents of a perf ring; a BPF ring buffer keeps them for the next reader. lost returns the
// kernel's count of outputs that failed for want of room. If the kernel does not know, Settle takes
// the larger of the reported losses and full.
func (r *Ring) Settle(lost func(ring int) (n uint64, ok bool), full uint64) {
	samples, reported := r.count(r.Raw.Tail())
	if r.Raw.Layout() != raw.LayoutRingBuf {
		r.Counts.Dropped.Add(samples)
	}
	total, ok := lost(r.index)
	if !ok {
		r.Raw.Losses.Report(reported, 0, 0)
		total = max(r.Raw.Losses.Known.Load(), full)
	}
	r.Raw.Losses.Known.Store(total)
}

// count returns how many samples and reported losses a ring holds from an offset on. It counts no
// busy records.
func (r *Ring) count(off uint64) (samples, lost uint64) {
	var rec raw.Record
	for head := r.Raw.Head(); off != head; off += rec.Size {
		switch r.Raw.Parse(off, head, &rec); rec.Kind {
		case raw.Sample:
			samples++
		case raw.Lost:
			if odd := (raw.Odd{}); !r.Raw.Counted(&rec, &odd) || odd.Kind == raw.Lost {
				lost += rec.Lost
			}
		}
	}
	return samples, lost
}
