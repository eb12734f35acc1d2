package suite

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/internal/workload"
)

// Item is one frame that an adapter sent about what it read, in the order of delivery.
type Item struct {
	Type    wire.Type
	Source  int
	CPU     int              // as the reader tells; -1 if it does not
	Time    uint64           // as the reader tells; 0 if it does not
	Lost    uint64           // of wire.Lost and wire.Shed
	Payload workload.Payload // of wire.Event
	Data    []byte           // of wire.Event, if the scenario keeps payloads
}

// State is what a subject has delivered so far.
type State struct {
	kinds []string // of the sources
	keep  bool     // keep payloads, and do not parse them

	Items    []Item
	Events   int
	Of       [][]workload.Account // by source and CPU, that of samples as their payloads say
	LostAnon []uint64             // losses without CPU, by source
	Losses   int                  // reports of losses
	Damaged  []string             // what the reader says of memory that makes no sense
	Errors   []string             // what the reader reports otherwise
	Problems []string             // what no reader should deliver
	Done     map[string]int
	Shed     map[laneOf]uint64
	Receipts map[laneOf]receipt
	Number   uint64 // the latest
	Ready    bool
	Declined string // the latest frame cannot
	Exited   bool
	Status   string // how the adapter ended
}

// laneOf is a lane of a CPU, of the first source.
type laneOf struct{ cpu, lane int }

// receipt is what became of a lane's outputs.
type receipt struct{ attempted, delivered, shed, lost uint64 }

func newState(sources []*Source) *State {
	st := &State{Done: map[string]int{}, Shed: map[laneOf]uint64{}, Receipts: map[laneOf]receipt{}}
	for _, s := range sources {
		st.kinds = append(st.kinds, s.Kind)
		st.Of = append(st.Of, make([]workload.Account, s.CPUs))
		st.LostAnon = append(st.LostAnon, 0)
	}
	return st
}

// add takes a frame in.
func (st *State) add(f wire.Frame) {
	if f.Source >= len(st.kinds) {
		st.problem("a frame of source %d, of %d", f.Source, len(st.kinds))
		return
	}
	item := Item{Type: f.Type, Source: f.Source, CPU: f.CPU, Time: f.Time}
	switch f.Type {
	case wire.Event:
		st.Events++
		if st.keep {
			item.Data = slices.Clone(f.Data)
		} else {
			st.event(&item, f)
		}
	case wire.Lost:
		item.Lost = word(f, 0)
		st.Losses++
		if f.CPU >= 0 && f.CPU < len(st.Of[f.Source]) {
			st.Of[f.Source][f.CPU].Lose(item.Lost)
		} else {
			st.LostAnon[f.Source] += item.Lost
		}
	case wire.Ready:
		st.Ready = true
		return
	case wire.Done:
		st.Done[string(f.Data)]++
		return
	case wire.Error:
		st.Errors = append(st.Errors, string(f.Data))
	case wire.Number:
		st.Number = word(f, 0)
		return
	case wire.Shed:
		item.Lost = word(f, 0)
		st.Shed[laneOf{f.CPU, int(word(f, 1))}] += item.Lost
	case wire.Receipt:
		st.Receipts[laneOf{f.CPU, int(word(f, 0))}] = receipt{word(f, 1), word(f, 2), word(f, 3), word(f, 4)}
		return
	case wire.Cannot:
		st.Declined = string(f.Data)
		return
	case wire.Damaged:
		st.Damaged = append(st.Damaged, string(f.Data))
	}
	st.Items = append(st.Items, item)
}

// word is number i of a frame.
func word(f wire.Frame, i int) uint64 { return binary.LittleEndian.Uint64(f.Data[8*i:]) }

// event checks an event by itself, and against those before it of its CPU.
func (st *State) event(item *Item, f wire.Frame) {
	p, err := workload.Check(f.Data)
	item.Payload = p
	switch {
	case err != nil:
		st.problem("%v", err)
	case st.kinds[f.Source] == "ringbuf" && len(f.Data) != p.Size:
		st.problem("event %d of CPU %d: %d bytes were output, %d delivered", p.Seq, p.CPU, p.Size, len(f.Data))
	case p.CPU >= len(st.Of[f.Source]):
		st.problem("an event of CPU %d, which there is not", p.CPU)
	case f.CPU >= 0 && f.CPU != p.CPU:
		st.problem("event %d of CPU %d is said to be of CPU %d", p.Seq, p.CPU, f.CPU)
	default:
		if _, err := st.Of[f.Source][p.CPU].Take(p); err != nil {
			st.problem("%v: twice, or out of order", err)
		}
	}
}

func (st *State) problem(format string, args ...any) {
	if len(st.Problems) < 10 {
		st.Problems = append(st.Problems, fmt.Sprintf(format, args...))
	}
}

// TotalLost sums up the losses of a source.
func (st *State) TotalLost(source int) uint64 {
	total := st.LostAnon[source]
	for _, a := range st.Of[source] {
		total += a.Lost
	}
	return total
}
