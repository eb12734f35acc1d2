package perfevent

import (
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// attr returns the attributes of each ring's perf event.
func attr(o kernel.Setup) *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE,
		// The first size with a clockid and the fields used here; any kernel with BPF output takes
		// it.
		Size:        unix.PERF_ATTR_SIZE_VER5,
		Config:      unix.PERF_COUNT_SW_BPF_OUTPUT,
		Sample:      1, // sample_period: every output is a sample
		Sample_type: unix.PERF_SAMPLE_RAW,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_LOST,
		Wakeup:      uint32(o.WakeupEvents),
	}
	if !o.NoTime {
		a.Sample_type |= unix.PERF_SAMPLE_TIME
		// perf's default clock is not comparable between CPUs. sample_id_all stamps lost records
		// too.
		a.Bits |= unix.PerfBitSampleIDAll | unix.PerfBitUseClockID
		a.Clockid = unix.CLOCK_MONOTONIC
	}
	if bytes := o.WakeupBytes; bytes > 0 {
		a.Bits |= unix.PerfBitWatermark
		a.Wakeup = uint32(bytes)
	}
	return a
}
