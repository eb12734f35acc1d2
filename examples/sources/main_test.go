package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

type object struct {
	Source, Kind, Text string
	Time               uint64 `json:"time_ns"`
	CPU                int
	Lost               uint64
}

// All sources come in one order, which is that of what has happened: a process is forked, executes, and exits.
func TestJSON(t *testing.T) {
	from, state, lives := map[string]int{}, map[string]string{}, 0
	kerneltest.Require(t)
	kerneltest.Processes(t)
	lines := kerneltest.Until(t, kerneltest.Program(t, "-json"), func(line string) bool {
		var o object
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		from[o.Source]++
		switch words := strings.Fields(o.Text); {
		case o.Kind != "sample":
		case o.Source == "forks":
			state[words[2]] = "forked"
		case o.Source == "execs" && state[words[0]] == "forked":
			state[words[0]] = "executes"
		case o.Source == "exits" && state[words[0]] == "executes":
			lives++
		}
		return len(from) == 4 && lives >= 3
	})
	before := uint64(0)
	for _, line := range lines {
		var o object
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		if o.Kind == "sample" {
			require.GreaterOrEqual(t, o.Time, before)
			before = o.Time
			require.GreaterOrEqual(t, o.CPU, 0)
		}
	}
}

func TestText(t *testing.T) {
	kerneltest.Require(t)
	kerneltest.Processes(t)
	missing := []string{" forks ", " executes /", " exits with 0", "  from "}
	kerneltest.Until(t, kerneltest.Program(t), func(line string) bool {
		require.Regexp(t, `^ *\d+\.\d{6}  cpu \d+ +(forks|execs|exits|switches) +\S`, line)
		missing = slices.DeleteFunc(missing, func(s string) bool { return strings.Contains(line, s) })
		return len(missing) == 0
	})
}

// The duration is that of reading.
func TestDuration(t *testing.T) {
	kerneltest.Require(t)
	require.NoError(t, kerneltest.Program(t, "-duration", "1ms").Run())
}

func TestNoPrivilege(t *testing.T) { kerneltest.Unprivileged(t) }
