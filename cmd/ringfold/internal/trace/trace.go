package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// trace writes the Trace Event Format: JSON that the Perfetto UI and chrome://tracing read. Google's document "Trace Event
// Format" describes it; Perfetto's own converter is src/trace_processor/importers/json of its source.
//
// Running threads are pairs of begin and end, not complete events with a duration. So where one ends and the next begins
// there is one number, which cannot be rounded in two ways. Both come in this order, even at the same time.
type trace struct {
	w     *bufio.Writer
	first bool
	err   error // the first; nothing is written after it
}

// event is one of the format's events.
type event struct {
	Phase    string  `json:"ph"` // B, E: a slice begins, ends. i: an instant. s, f: an arrow begins, ends. C: counters. M: names
	Process  int     `json:"pid"`
	Thread   int     `json:"tid"`
	Time     float64 `json:"ts"` // µs; ns are decimals
	Category string  `json:"cat,omitempty"`
	Name     string  `json:"name,omitempty"`
	Scope    string  `json:"s,omitempty"`    // of an instant: t, its thread
	ID       uint64  `json:"id,omitempty"`   // of an arrow, both of its ends
	Bind     string  `json:"bp,omitempty"`   // of an arrow's end: e, to the slice around it, not to the next
	Args     any     `json:"args,omitempty"` // nil, or what becomes an object
}

func newTrace(w io.Writer) *trace {
	t := &trace{w: bufio.NewWriterSize(w, 64<<10), first: true}
	t.w.WriteString(`{"traceEvents":[`) // no displayTimeUnit: Perfetto takes it for the unit of all times
	return t
}

// close ends the file with information about all of it. Viewers also show a trace without this end.
func (t *trace) close(information any) error {
	other, err := json.Marshal(information)
	if t.err != nil || err != nil {
		return errors.Join(t.err, err)
	}
	t.w.WriteString("\n],\"otherData\":")
	t.w.Write(other)
	t.w.WriteString("}\n")
	return t.w.Flush()
}

func (t *trace) write(e event) {
	line, err := json.Marshal(e)
	if t.err == nil {
		t.err = err
	}
	if t.err != nil {
		return
	}
	if !t.first {
		t.w.WriteByte(',')
	}
	t.first = false
	t.w.WriteByte('\n')
	_, t.err = t.w.Write(line) // an error of before is kept, and comes again
}

// process names a process, and puts it in its place.
func (t *trace) process(pid int, name string) {
	t.write(event{Phase: "M", Process: pid, Name: "process_name", Args: map[string]any{"name": name}})
	t.write(event{Phase: "M", Process: pid, Name: "process_sort_index", Args: map[string]any{"sort_index": pid}})
}

func (t *trace) thread(pid, tid int, name string) {
	t.write(event{Phase: "M", Process: pid, Thread: tid, Name: "thread_name", Args: map[string]any{"name": name}})
	t.write(event{Phase: "M", Process: pid, Thread: tid, Name: "thread_sort_index", Args: map[string]any{"sort_index": tid}})
}
