package main

import (
	"strings"
	"testing"
)

const good = `{"time_ns":3,"cpu":0,"event":"fork"}
{"time_ns":2,"cpu":1,"event":"exec","late":true}
{"time_ns":3,"cpu":2,"event":"lost","lost":7}
{"summary":{"events":3,"cpus":3,"mode":"slack","reordered":1,"late":1,"lost":7,"out_of_order":0,"outputs":10,"samples":2,"unread":1}}
`

func TestCheck(t *testing.T) {
	for _, test := range []struct{ name, old, new, want string }{
		{"good", "", "", ""},
		{"not late", `,"late":true`, "", "goes back in time"},
		{"no JSON", `"cpu":1`, `"cpu":`, "line 2: invalid character"},
		{"no CPU", `"cpu":1,`, "", "line 2 lacks"},
		{"silent CPU", `"cpu":1`, `"cpu":0`, "no event of CPU 1"},
		{"other count", `"events":3`, `"events":4`, "there are 3 events: the summary is"},
		{"no count", `"events":3,`, "", "there are 3 events: the summary is"},
		{"out of order", `"out_of_order":0`, `"out_of_order":1`, "out of order"},
		{"late in exact mode", `"slack"`, `"exact"`, "late in exact mode"},
		{"no mode", `"mode":"slack",`, "", "no such mode"},
		{"other late", `"late":1`, `"late":0`, "1 lines are late"},
		{"no late", `"late":1,`, "", "1 lines are late"},
		{"fewer lost", `"lost":7,"out`, `"lost":6,"out`, "7 events were lost"},
		{"other samples", `"samples":2`, `"samples":3`, "there are 2 samples"},
		{"unaccounted", `"outputs":10`, `"outputs":11`, "outputs are not"},
		{"no outputs", `"outputs":10,`, "", "outputs are not"},
		{"simulated", `"events":3`, `"simulated":true,"events":3`, "simulated"},
		{"no summary", `"summary"`, `"summery"`, "line 4 lacks"},
		{"cut short", good, "", "no summary"},
		{"goes on", good, good + good, "after the summary"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := check(strings.NewReader(strings.Replace(good, test.old, test.new, 1)), "0-1,2\n")
			switch {
			case test.want == "" && err != nil:
				t.Errorf("error %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
