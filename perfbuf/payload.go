package perfbuf

// TimeSource selects the timestamps that order a stream. The zero value selects the kernel's
// (PERF_SAMPLE_TIME).
type TimeSource struct {
	payload bool
	stamped bool
	boot    bool // of CLOCK_BOOTTIME
	offset  int
}

// PayloadTime orders by a time that the program itself puts into the payload: a uint64 at this byte
// offset, in ns of CLOCK_MONOTONIC, as bpf_ktime_get_ns returns it. [Event.Time] is then that time,
// and rings need no kernel times ([Options.NoTime]).
//
// Exact mode then proves completeness only for times taken in the same run of the program as the
// output. A time from an earlier run, such as the start of a call that has now returned, makes its
// event late. So does a coarse clock (bpf_ktime_get_coarse_ns), which lags by milliseconds.
// [NestLevels] proves nothing here, because programs may be preempted between taking the time and
// the output.
//
// Grace periods do not wait for sleepable programs, nor for callbacks of bpf_wq and bpf_task_work,
// which may sleep, too, and output to BPF ring buffers. The verifier keeps perf event arrays from
// sleepable programs, also behind tail calls, but misses two ways: an array found in a map of maps,
// and a function replaced by freplace. Such an output may come after any delay: late by its own
// time, in order by the kernel's, and after Drain.
//
// A sample too short for the time, or with a time more than a second in the future, is ordered by
// the kernel's time. Without kernel times it goes with its predecessor. Stats.Untimed counts both.
// A stream returns an error, once, if a source begins with 16 samples or more whose times are all
// in the future, or are missing where the kernel's time cannot replace them. It names the map: the
// offset is wrong, or the times are of another clock, as bpf_ktime_get_boot_ns is after a suspend:
// see [PayloadBootTime]. No event is lost, and the stream may be read on, with or without that
// source. Times of a clock that lags, such as jiffies, look like late events: Stats.Late counts
// them.
func PayloadTime(offset int) TimeSource { return TimeSource{payload: true, offset: offset} }

// PayloadBootTime is a [PayloadTime] in ns of CLOCK_BOOTTIME, as bpf_ktime_get_boot_ns returns it:
// it also counts the time in which the machine was suspended. All times of the stream are then of
// this clock, losses' and [Stream.Watermark] included, so its other sources must use it, too. Rings
// have no kernel times, as under [Options.NoTime]: a sample without a credible time goes with its
// predecessor. Compare with clock_gettime(CLOCK_BOOTTIME), not with [Now]. Recordings have the
// times as they are, though their header names CLOCK_MONOTONIC.
func PayloadBootTime(offset int) TimeSource {
	return TimeSource{payload: true, boot: true, offset: offset}
}

// StampedTime is a [PayloadTime] that programs take after they have reserved the record in a BPF
// ring buffer, as perfbuf_ringbuf_reserve of bpf/perfbuf_ringbuf.h does. It is for [OpenRingBuf]
// alone. Exact mode needs no barrier for such a source: it is complete up to the time at which its
// positions were read, except for records that are reserved but not yet submitted. That also holds
// for programs and callbacks that may sleep, for which no grace period waits. A program that sleeps
// with a record reserved holds the stream back.
func StampedTime(offset int) TimeSource {
	return TimeSource{payload: true, stamped: true, offset: offset}
}

// early reports whether programs take the time before they output, so that barriers have to wait
// for whole programs.
func (t TimeSource) early() bool { return t.payload && !t.stamped }

// Offset returns where a payload holds the time, or -1 for the kernel's.
func (t TimeSource) Offset() int {
	if t.payload {
		return t.offset
	}
	return -1
}

// CPUSource says where payloads hold their CPU number. The zero value means nowhere.
type CPUSource struct {
	payload bool
	offset  int
}

// PayloadCPU is a uint32 at this byte offset of the payload, as bpf_get_smp_processor_id returns
// it.
func PayloadCPU(offset int) CPUSource { return CPUSource{payload: true, offset: offset} }

// Offset returns where a payload holds the CPU number, or -1 for nowhere.
func (c CPUSource) Offset() int {
	if c.payload {
		return c.offset
	}
	return -1
}
