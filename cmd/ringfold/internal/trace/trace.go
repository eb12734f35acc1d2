package trace

import (
	"bufio"
	"encoding/json"
	"io"
)

// trace writes the Trace Event Format: JSON that the Perfetto UI and chrome://tracing read. It is described in Google's document
// "Trace Event Format"; Perfetto's own converter is src/trace_processor/importers/json of its source.
//
// Running threads are pairs of begin and end, not complete events with a duration: where one ends and the next begins there is one
// number, which cannot be rounded in two ways. In this order, even if both have the same time.
type trace struct {
	w     *bufio.Writer
	first bool
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

// close ends the file: information is about all of it. What is not closed can be read all the same: viewers do not insist on the end.
func (t *trace) close(information any) error {
	other, err := json.Marshal(information)
	if err != nil {
		return err
	}
	t.w.WriteString("\n],\"otherData\":")
	t.w.Write(other)
	t.w.WriteString("}\n")
	return t.w.Flush()
}

func (t *trace) write(e event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if !t.first {
		t.w.WriteByte(',')
	}
	t.first = false
	t.w.WriteByte('\n')
	_, err = t.w.Write(line) // an error of before is kept, and comes again
	return err
}

func micros(ns uint64) float64 { return float64(ns) / 1000 }

// process names a process, and puts it in its place.
func (t *trace) process(pid int, name string) error {
	if err := t.write(event{Phase: "M", Process: pid, Name: "process_name", Args: map[string]any{"name": name}}); err != nil {
		return err
	}
	return t.write(event{Phase: "M", Process: pid, Name: "process_sort_index", Args: map[string]any{"sort_index": pid}})
}

func (t *trace) thread(pid, tid int, name string) error {
	if err := t.write(event{Phase: "M", Process: pid, Thread: tid, Name: "thread_name", Args: map[string]any{"name": name}}); err != nil {
		return err
	}
	return t.write(event{Phase: "M", Process: pid, Thread: tid, Name: "thread_sort_index", Args: map[string]any{"sort_index": tid}})
}

func (t *trace) begin(tid int, ns uint64, category, name string, args map[string]any) error {
	return t.write(event{Phase: "B", Process: processCPUs, Thread: tid, Time: micros(ns), Category: category, Name: name, Args: some(args)})
}

func (t *trace) end(tid int, ns uint64, args map[string]any) error {
	return t.write(event{Phase: "E", Process: processCPUs, Thread: tid, Time: micros(ns), Args: some(args)})
}

// some is args, or nothing.
func some(args map[string]any) any {
	if args == nil {
		return nil
	}
	return args
}

func (t *trace) instant(tid int, ns uint64, category, name string, args any) error {
	return t.write(event{Phase: "i", Process: processCPUs, Thread: tid, Time: micros(ns), Category: category, Name: name, Scope: "t", Args: args})
}

// leave and arrive are the ends of an arrow, from the slice that runs at one time to that at another.
func (t *trace) leave(tid int, ns, id uint64) error {
	return t.write(event{Phase: "s", Process: processCPUs, Thread: tid, Time: micros(ns), Category: "process", Name: "start", ID: id})
}

func (t *trace) arrive(tid int, ns, id uint64) error {
	return t.write(event{Phase: "f", Process: processCPUs, Thread: tid, Time: micros(ns), Category: "process", Name: "start", ID: id, Bind: "e"})
}

func (t *trace) counter(pid int, ns uint64, name, unit string, value uint64) error {
	return t.write(event{Phase: "C", Process: pid, Thread: pid, Time: micros(ns), Name: name, Args: map[string]any{unit: value}})
}
