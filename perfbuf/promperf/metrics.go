package promperf

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/ringfold/ringfold/perfbuf"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var ringMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	number     func(perfbuf.RingStats) float64
}{
	{"samples_total", "Events delivered.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Samples) }},
	{"dropped_samples_total", "Events that were read and not delivered: late ones, if that is asked for, and those left at the end.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Dropped) }},
	{"lost_samples_total", "Outputs that failed for want of room, as far as known.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Lost) }},
	{"lost_records_total", "The kernel's reports of losses.", counter, func(r perfbuf.RingStats) float64 { return float64(r.LostRecords) }},
	{"corrupt_records_total", "Stretches of memory that could not be read, and were skipped.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Corrupt) }},
	{"discarded_records_total", "Records of a BPF ring buffer that programs gave up, which were skipped.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Discarded) }},
	{"unknown_records_total", "Records of other types, which were skipped.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Unknown) }},
	{"read_bytes_total", "Bytes given back to the kernel, of records of all kinds.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Bytes) }},
	{"tail_stores_total", "Stores of a ring's tail.", counter, func(r perfbuf.RingStats) float64 { return float64(r.TailStores) }},
	{"ring_size_bytes", "Size of the rings.", gauge, func(r perfbuf.RingStats) float64 { return float64(r.Size) }},
	{"ring_used_bytes", "Bytes in the rings that have not been given back to the kernel.", gauge, func(r perfbuf.RingStats) float64 { return float64(r.Used) }},
}

var readerMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	number     func(*perfbuf.Stats) float64
}{
	{"rings", "Rings, one for each CPU that is read.", gauge, func(s *perfbuf.Stats) float64 { return float64(len(s.Rings)) }},
	{"wakeups_total", "Times that the kernel has woken the reader.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Wakes) }},
	{"spurious_wakeups_total", "Of these, with nothing to read.", counter, func(s *perfbuf.Stats) float64 { return float64(s.SpuriousWakes) }},
	{"timer_wakes_total", "Times that the reader has looked because events had waited for the poll interval.", counter, func(s *perfbuf.Stats) float64 { return float64(s.TimerWakes) }},
	{"passes_total", "Passes over all rings.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Passes) }},
	{"doorbell_arms_total", "Times that a quiet ring was told to wake the reader with its next event.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Doorbell.Arms) }},
	{"doorbell_disarms_total", "Times that it was disarmed.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Doorbell.Disarms) }},
	{"doorbell_polls_total", "Looks at the rings by the timer.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Doorbell.Polls) }},
	{"doorbell_armed_rings", "Rings whose next event wakes the reader.", gauge, func(s *perfbuf.Stats) float64 { return float64(s.Doorbell.Armed) }},
	{"doorbell_failed", "1 if there is no doorbell, though the options ask for one: the reader polls.", gauge, func(s *perfbuf.Stats) float64 { return failed(s.Doorbell.Err) }},
	{"hotplug_added_rings_total", "Rings for CPUs that came online for the first time.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Hotplug.Added) }},
	{"hotplug_reopened_rings_total", "Rings of CPUs that came back online.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Hotplug.Reopened) }},
	{"hotplug_failed", "1 if CPUs that come online could not be followed, the latest time.", gauge, func(s *perfbuf.Stats) float64 { return failed(s.Hotplug.Err) }},
	{"replaced_entries", "Entries of the map that were another reader's when this one was opened.", gauge, func(s *perfbuf.Stats) float64 { return float64(s.ReplacedEntries) }},
	{"outputs_attempted_total", "Outputs that programs have attempted. 0 without Options.Outputs.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Outputs.Total().Attempted) }},
	{"recursion_misses_total", "Runs of programs that the kernel has skipped, as they were running on that CPU. 0 without Options.Outputs.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Outputs.RecursionMisses) }},
	{"late_events_total", "Events of ordered streams that came after one with a later time.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Late) }},
	{"max_lateness_seconds", "By how much, at most.", gauge, func(s *perfbuf.Stats) float64 { return s.MaxLateness.Seconds() }},
	{"inversions_total", "Events that lay in their ring behind one with a later time.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Inversions) }},
	{"untimed_events_total", "Events without a believable time in their payload.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Untimed) }},
	{"spilled_bytes_total", "Bytes copied out of rings that filled up while their events waited for order.", counter, func(s *perfbuf.Stats) float64 { return float64(s.SpilledBytes) }},
	{"spill_used_bytes", "Memory that holds such copies.", gauge, func(s *perfbuf.Stats) float64 { return float64(s.SpillUsed) }},
	{"spill_refused_total", "Times that the budget for copies was used up.", counter, func(s *perfbuf.Stats) float64 { return float64(s.SpillRefused) }},
	{"barriers_total", "Barriers of exact streams: waits until no earlier event can come.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Barrier.Count) }},
	{"barriers_failed_total", "Barriers that failed.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Barrier.Failed) }},
	{"barrier_p50_seconds", "Median of the time that barriers take.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.P50.Seconds() }},
	{"barrier_p99_seconds", "What 99 of 100 barriers take at most.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.P99.Seconds() }},
	{"barrier_max_seconds", "The longest barrier.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.Max.Seconds() }},
	{"barrier_last_seconds", "The latest barrier.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.Last.Seconds() }},
	{"barrier_cost_seconds", "A wait by the way that was chosen, as measured when the process's first exact stream opened.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.Cost.Seconds() }},
	{"barrier_stalled_seconds", "How long the present barrier has been under way, if that is more than a second.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.Stalled.Seconds() }},
}

// failed is 1 for an error.
func failed(err error) float64 {
	if err != nil {
		return 1
	}
	return 0
}
