package trace

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readTrace is a trace as a viewer has it, which knows the format and nothing of this program.
type readTrace struct {
	tracks   map[string]*readTrack // by the thread's name
	arrows   []readArrow           // that end
	counters map[string][]float64
	other    map[string]any
}

type readTrack struct {
	slices   []readSlice
	instants []readInstant
}

type readSlice struct {
	name       string
	begin, end float64
	args       map[string]any // of the begin
	ended      map[string]any // of the end
}

// readArrow goes from what ran on a track at a time to what ran on another.
type readArrow struct {
	from, to      string // tracks
	left, arrived float64
	parent, child float64 // tids
}

type readInstant struct {
	what    string // first word of its name
	time    float64
	pid     int
	running int // whose slice it is in
	args    map[string]any
}

// read reads what trace.go writes, and fails where a viewer would complain or guess: an end without a begin, slices that overlap, times
// that go back within a track, unnamed tracks, unknown keys.
func read(t *testing.T, r io.Reader) *readTrace {
	t.Helper()
	var file struct {
		TraceEvents []struct {
			Ph           string       `json:"ph"`
			Pid          *int         `json:"pid"`
			Tid          *int         `json:"tid"`
			Ts           *json.Number `json:"ts"`
			Cat, Name, S string
			ID           int            `json:"id"`
			BP           string         `json:"bp"`
			Args         map[string]any `json:"args"`
		} `json:"traceEvents"`
		OtherData map[string]any `json:"otherData"`
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&file))

	type key struct{ pid, tid int }
	names, tracks, latest := map[key]string{}, map[key]*readTrack{}, map[key]float64{}
	got := &readTrace{tracks: map[string]*readTrack{}, counters: map[string][]float64{}, other: file.OtherData}
	open, arrows := map[key]*readSlice{}, map[int]readArrow{}
	for _, e := range file.TraceEvents {
		must := func(ok bool, what string) { // there may be very many events: testify's way would take minutes
			if !ok {
				t.Fatalf("%s: %+v", what, e)
			}
		}
		must(e.Pid != nil && e.Tid != nil && e.Ts != nil, "something is missing")
		k := key{*e.Pid, *e.Tid}
		if e.Ph == "M" {
			if e.Name == "thread_name" {
				names[k] = e.Args["name"].(string)
				tracks[k] = &readTrack{}
				got.tracks[names[k]] = tracks[k]
			}
			continue
		}
		must(!strings.Contains(e.Ts.String(), "e"), "a time with an exponent")
		_, decimals, _ := strings.Cut(e.Ts.String(), ".")
		must(len(decimals) <= 3, "less than ns")
		time, err := e.Ts.Float64()
		must(err == nil && time >= 0, "a time before the recording")
		if e.Ph == "C" {
			must(len(e.Args) == 1, "a counter of several values")
			for unit, value := range e.Args {
				got.counters[e.Name+" "+unit] = append(got.counters[e.Name+" "+unit], value.(float64))
			}
			continue
		}
		must(names[k] != "", "a track without a name")
		must(*e.Tid != 0, "viewers take thread 0 for idle")
		must(time >= latest[k], "time goes back")
		latest[k] = time
		switch e.Ph {
		case "B":
			must(open[k] == nil, "it begins while another runs")
			open[k] = &readSlice{name: e.Name, begin: time, args: e.Args}
		case "E":
			must(open[k] != nil, "an end without a begin")
			open[k].end, open[k].ended = time, e.Args
			tracks[k].slices = append(tracks[k].slices, *open[k])
			open[k] = nil
		case "i":
			must(e.S == "t", "not an instant of a thread")
			what, _, _ := strings.Cut(e.Name, " ")
			pid, _ := e.Args["pid"].(float64)
			i := readInstant{what: what, time: time, pid: int(pid), args: e.Args}
			if open[k] != nil {
				i.running = int(open[k].args["pid"].(float64))
			}
			tracks[k].instants = append(tracks[k].instants, i)
		case "s":
			must(open[k] != nil, "an arrow from nowhere")
			must(e.ID != 0 && arrows[e.ID].from == "", "an arrow begins twice")
			arrows[e.ID] = readArrow{from: names[k], left: time, parent: open[k].args["tid"].(float64)}
		case "f":
			must(open[k] != nil, "an arrow to nowhere")
			must(e.BP == "e", "an arrow to the next slice")
			a := arrows[e.ID]
			must(a.from != "" && a.to == "", "an arrow ends that has not begun, or has ended")
			must(a.left <= time, "an arrow back in time")
			a.to, a.arrived, a.child = names[k], time, open[k].args["tid"].(float64)
			arrows[e.ID] = a
			got.arrows = append(got.arrows, a)
		default:
			must(false, "an unknown phase")
		}
	}
	for k, s := range open {
		require.Nil(t, s, "a slice on %s does not end", names[k])
	}
	return got
}
