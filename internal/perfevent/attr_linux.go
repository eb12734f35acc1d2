package perfevent

import (
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// attr is the perf event behind each ring.
func attr(o kernel.Setup) *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Size:        unix.PERF_ATTR_SIZE_VER5, // the first with a clockid and all that follows it here; any kernel with BPF output takes it
		Config:      unix.PERF_COUNT_SW_BPF_OUTPUT,
		Sample:      1, // sample_period: every output is a sample
		Sample_type: unix.PERF_SAMPLE_RAW,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_LOST,
		Wakeup:      uint32(o.WakeupEvents),
	}
	if !o.NoTime {
		a.Sample_type |= unix.PERF_SAMPLE_TIME
		// The default clock of perf is not comparable between CPUs. sample_id_all gives losses a time too.
		a.Bits |= unix.PerfBitSampleIDAll | unix.PerfBitUseClockID
		a.Clockid = unix.CLOCK_MONOTONIC
	}
	if bytes := o.WakeupBytes; bytes > 0 {
		a.Bits |= unix.PerfBitWatermark
		a.Wakeup = uint32(bytes)
	}
	return a
}
