package workload

import "time"

// Clock reads CLOCK_MONOTONIC in ns, as bpf_ktime_get_ns does, by way of package time: that asks
// the vDSO and makes no system call.
type Clock struct {
	base time.Time
	at   uint64
}

// NewClock sets it by another that reads the same one, such as perfbuf.Now.
func NewClock(now func() uint64) (c Clock) {
	best := time.Hour
	for range 100 {
		before := time.Now()
		at := now()
		if took := time.Since(before); took < best {
			best, c = took, Clock{before.Add(took / 2), at}
		}
	}
	return c
}

// Now is the time.
func (c Clock) Now() uint64 { return c.at + uint64(time.Since(c.base)) }
