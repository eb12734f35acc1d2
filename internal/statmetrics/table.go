package statmetrics

import (
	"math"

	"github.com/ringfold/ringfold/perfbuf"
)

// row turns one number of a T into a metric.
type row[T any] struct {
	name, help string
	counter    bool
	number     func(T) float64
}

const (
	counter = true
	gauge   = false
)

var ringRows = []row[perfbuf.RingStats]{
	{"samples_total", "Events delivered.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Samples) }},
	{"dropped_samples_total", "Events read but not delivered: late ones, with DropLate, and those left at the end.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Dropped) }},
	{"lost_samples_total", "Outputs that failed because the ring was full, as far as known.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Lost) }},
	{"lost_records_total", "Loss reports by the kernel.", counter, func(r perfbuf.RingStats) float64 { return float64(r.LostRecords) }},
	{"shed_samples_total", "Outputs that programs left out to keep room for those in other lanes.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Shed) }},
	{"corrupt_records_total", "Stretches of corrupt ring memory that were skipped.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Corrupt) }},
	{"discarded_records_total", "Records of a BPF ring buffer that programs discarded.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Discarded) }},
	{"shared_total", "Times that another reader was found to have read the BPF ring buffer.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Shared) }},
	{"unknown_records_total", "Records of unknown type that were skipped.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Unknown) }},
	{"read_bytes_total", "Bytes given back to the kernel, for records of all kinds.", counter, func(r perfbuf.RingStats) float64 { return float64(r.Bytes) }},
	{"tail_stores_total", "Stores of a ring's tail.", counter, func(r perfbuf.RingStats) float64 { return float64(r.TailStores) }},
	{"ring_size_bytes", "Size of the rings.", gauge, func(r perfbuf.RingStats) float64 { return float64(r.Size) }},
	{"ring_high_water_ratio", "Highest fill level of a ring, as a share of its size; without the label cpu, of the fullest ring.", gauge, highWater},
	{"ring_used_bytes", "Bytes in the rings not yet given back to the kernel.", gauge, func(r perfbuf.RingStats) float64 { return float64(r.Used) }},
}

var refusedRows = []row[uint64]{
	{"outputs_refused_total", "Outputs that got nowhere, by reason. Needs Options.LanesFD.", counter, func(n uint64) float64 { return float64(n) }},
}

var providerRows = []row[string]{
	{"barrier_provider", "The way barriers wait: 1 for the provider in use.", gauge, func(string) float64 { return 1 }},
}

var readerRows = []row[*perfbuf.Stats]{
	{"rings", "Rings being read, one per CPU.", gauge, func(s *perfbuf.Stats) float64 { return float64(len(s.Rings)) }},
	{"wakeups_total", "Wakeups of the reader by the kernel.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Wakes) }},
	{"spurious_wakeups_total", "Wakeups with nothing to read.", counter, func(s *perfbuf.Stats) float64 { return float64(s.SpuriousWakes) }},
	{"timer_wakes_total", "Times the reader looked because events had waited for the poll interval.", counter, func(s *perfbuf.Stats) float64 { return float64(s.TimerWakes) }},
	{"passes_total", "Passes over all rings.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Passes) }},
	{"doorbell_arms_total", "Times a quiet ring was armed, so that its next event wakes the reader.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Doorbell.Arms) }},
	{"doorbell_disarms_total", "Times a busy ring was disarmed.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Doorbell.Disarms) }},
	{"doorbell_polls_total", "Polls of the rings by the timer.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Doorbell.Polls) }},
	{"doorbell_armed_rings", "Rings whose next event wakes the reader.", gauge, func(s *perfbuf.Stats) float64 { return float64(s.Doorbell.Armed) }},
	{"doorbell_failed", "1 if the doorbell was asked for but failed: the reader polls.", gauge, func(s *perfbuf.Stats) float64 { return failed(s.Doorbell.Err) }},
	{"hotplug_added_rings_total", "Rings added for CPUs that came online for the first time.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Hotplug.Added) }},
	{"hotplug_reopened_rings_total", "Rings reopened for CPUs that came back online.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Hotplug.Reopened) }},
	{"hotplug_failed", "1 if the reader could not follow the latest change of the online CPUs.", gauge, func(s *perfbuf.Stats) float64 { return failed(s.Hotplug.Err) }},
	{"replaced_entries", "Map entries that belonged to another reader when this one opened.", gauge, func(s *perfbuf.Stats) float64 { return float64(s.ReplacedEntries) }},
	{"displaced_entries", "Map entries that other readers have taken from this one, whose events no longer arrive. NaN if that is not known.", gauge, displaced},
	{"outputs_attempted_total", "Outputs that programs attempted. 0 without Options.LanesFD.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Outputs.Total().Attempted) }},
	{"recursion_misses_total", "Program runs that the kernel skipped because the program was already running on that CPU. 0 without Options.ProgFDs.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Outputs.RecursionMisses) }},
	{"late_events_total", "Events that ordered streams delivered after a later one.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Late) }},
	{"max_lateness_seconds", "Largest lateness of such an event.", gauge, func(s *perfbuf.Stats) float64 { return s.MaxLateness.Seconds() }},
	{"inversions_total", "Events behind a later one in their own ring.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Inversions) }},
	{"untimed_events_total", "Events without a plausible time in their payload.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Untimed) }},
	{"spilled_bytes_total", "Bytes copied out of rings that filled up while events waited for order.", counter, func(s *perfbuf.Stats) float64 { return float64(s.SpilledBytes) }},
	{"spill_used_bytes", "Memory in use for such copies.", gauge, func(s *perfbuf.Stats) float64 { return float64(s.SpillUsed) }},
	{"spill_refused_total", "Times the budget for copies was exhausted.", counter, func(s *perfbuf.Stats) float64 { return float64(s.SpillRefused) }},
	{"barriers_total", "Barriers of exact streams: waits until no earlier event can come.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Barrier.Count) }},
	{"barriers_failed_total", "Barriers that failed.", counter, func(s *perfbuf.Stats) float64 { return float64(s.Barrier.Failed) }},
	{"barrier_p50_seconds", "Median duration of barriers.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.P50.Seconds() }},
	{"barrier_p99_seconds", "99th percentile of the duration of barriers.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.P99.Seconds() }},
	{"barrier_max_seconds", "Longest barrier.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.Max.Seconds() }},
	{"barrier_last_seconds", "Latest barrier.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.Last.Seconds() }},
	{"barrier_cost_seconds", "Duration of one wait by the chosen provider, measured when the process opened its first exact stream.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.Cost.Seconds() }},
	{"barrier_stalled_seconds", "How long the current barrier has been under way, if more than a second.", gauge, func(s *perfbuf.Stats) float64 { return s.Barrier.Stalled.Seconds() }},
}

func displaced(s *perfbuf.Stats) float64 {
	if d := s.Displaced; d.Entries > 0 || d.Err == nil {
		return float64(d.Entries)
	}
	return math.NaN()
}

func highWater(r perfbuf.RingStats) float64 {
	if r.HighWater == 0 {
		return 0
	}
	return float64(r.HighWater) / float64(r.Size)
}

// failed is 1 for an error.
func failed(err error) float64 {
	if err != nil {
		return 1
	}
	return 0
}
