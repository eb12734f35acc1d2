package suite

import (
	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/internal/workload"
)

var overloadScenarios = []entry{
	{"overload/important-events", "overloadImportantEvents", overloadImportantEvents},
	{"overload/receipts", "overloadReceipts", overloadReceipts},
}

// Of outputs in lanes. The size of an event says in which lane it was.
const (
	otherSize, importantSize = 64, 72
	rounds                   = 6
)

// overloadImportantEvents: In a flood that its user cannot follow, a reader loses none of the important events.
//
// Expected: an exec or exit is worth more than the millionth read of a file. A program that has missed an exit keeps a dead process for
// ever; one that has missed reads, and knows it, goes on.
//
// Kernel: a full ring refuses whatever comes next (-ENOSPC), important or not. Nobody can make room for an event after the fact, so it
// has to be kept before: programs that know how full their ring is leave the rest of it to important events.
//
// Set-up: programs output in lanes, by bpf/perfbuf_lanes.h. The reader is given the map of lanes, with half of each ring for the important
// ones. Its user takes 1 ms for each event. Each CPU outputs more than twice what a ring holds in lane 0 and then three events in lane 1,
// six times; then the user is fast again, and all that is in rings is delivered. Four such floods. All events of lane 1 together
// fit in half of a ring, so the reader may be as slow as it likes.
//
// Check: all events of lane 1 are delivered.
//
// Known: falcosecurity/falco#2400.
func overloadImportantEvents(t *T) {
	source, s := t.startLanes()
	for range 4 {
		t.flood(source, s, 0)
	}
	delivered := s.deliveredInLanes()
	var important, lost, others, gone uint64
	for cpu, c := range t.Counts(source) {
		one, zero := c.To(workload.Lane1), c.To(workload.Lane0)
		attempted := one.Written + one.Full + one.Shed
		important, lost = important+attempted, lost+attempted-delivered[laneOf{cpu, 1}]
		others, gone = others+zero.Written+zero.Full+zero.Shed, gone+zero.Full+zero.Shed
	}
	if lost > 0 {
		t.Failf("%d of %d important events were lost, and %d of %d others", lost, important, gone, others)
	}
	t.Notef("%d important events, and %d of %d others", important, others-gone, others)
}

// overloadReceipts: After a flood, each output of each CPU and lane is accounted for: attempted = delivered + shed + lost.
//
// Expected: a count of events, or a rate, is right if the reader says what is missing from it, and of which kind that is.
//
// Kernel: it counts what a full ring refused, without saying what that was, and not what a program did not output in the first place.
//
// Set-up: as overload/important-events, three times, but each flood ends with more events of lane 1 than a ring holds.
//
// Check: the reader's receipts of each CPU and lane are what programs have counted and what was delivered; what it told of as shed, event by
// event, is what its receipts say.
func overloadReceipts(t *T) {
	source, s := t.startLanes()
	for range 3 {
		t.flood(source, s, workload.MaxCount)
		for _, cpu := range t.some() {
			t.lane(source, cpu, 1, 1) // with which the kernel reports losses
		}
		s.Settle()
	}
	s.Do("close")
	if s.Try("receipts") != "" {
		t.Cannotf("the reader does not know how many outputs there were in each lane, nor what became of them")
	}
	delivered := s.deliveredInLanes()
	counts := t.Counts(source)
	s.With(func(st *State) {
		var sum receipt
		for _, cpu := range t.some() {
			for lane := range 2 {
				c := counts[cpu].To(workload.Lane0 + workload.Map(lane))
				at := laneOf{cpu, lane}
				want := receipt{c.Written + c.Shed + c.Full, delivered[at], c.Shed, c.Full}
				if got := st.Receipts[at]; got != want || c.Written != delivered[at] {
					t.Failf("CPU %d, lane %d: the receipt says %d attempted, %d delivered, %d shed, %d lost; programs counted %d attempted, %d written, "+
						"%d shed, %d lost, and %d were delivered", cpu, lane, got.attempted, got.delivered, got.shed, got.lost,
						want.attempted, c.Written, want.shed, want.lost, delivered[at])
				}
				if st.Shed[at] != c.Shed {
					t.Failf("CPU %d, lane %d: %d outputs were shed, and the reader told of %d", cpu, lane, c.Shed, st.Shed[at])
				}
				sum = receipt{sum.attempted + c.Written + c.Shed + c.Full, sum.delivered + c.Written, sum.shed + c.Shed, sum.lost + c.Full}
			}
		}
		if sum.shed == 0 {
			t.Failf("nothing was shed: the reader has not said how full rings may be")
		}
		t.Notef("%d attempted = %d delivered + %d shed + %d lost", sum.attempted, sum.delivered, sum.shed, sum.lost)
	})
}

// startLanes starts the adapter on a map with lanes, with rings of 4 pages.
func (t *T) startLanes() (*Source, *Subject) {
	source := t.Source(Config{Kind: "perf", Lanes: true})
	return source, t.Start(source, "pages=4", "shares=50,100")
}

// lane outputs in a lane.
func (t *T) lane(source *Source, cpu, lane, count int) {
	size := []int{otherSize, importantSize}[lane]
	t.must(source.Output(cpu, workload.Output{Count: count, Size: size, To: workload.Lane0 + workload.Map(lane)}))
}

// flood outputs on some CPUs while the user is slow, at last so many more events of lane 1. It returns when what went into rings
// has been delivered.
func (t *T) flood(source *Source, s *Subject, more int) {
	s.Do("slow 1000")
	for round := range rounds {
		for _, cpu := range t.some() {
			t.lane(source, cpu, 0, workload.MaxCount)
			t.lane(source, cpu, 1, 3)
			if round == rounds-1 {
				t.lane(source, cpu, 1, more)
			}
		}
	}
	s.Do("slow 0")
	s.Settle()
}

// deliveredInLanes counts the events that were delivered.
func (s *Subject) deliveredInLanes() map[laneOf]uint64 {
	delivered := map[laneOf]uint64{}
	s.With(func(st *State) {
		for _, item := range st.Items {
			if item.Type == wire.Event && item.Payload.Size == importantSize {
				delivered[laneOf{item.Payload.CPU, 1}]++
			} else if item.Type == wire.Event {
				delivered[laneOf{item.Payload.CPU, 0}]++
			}
		}
	})
	return delivered
}
