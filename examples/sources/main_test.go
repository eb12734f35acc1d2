package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

// All sources come in one order, which is that of what has happened: a process is forked, executes, and exits.
func TestSources(t *testing.T) {
	kerneltest.Require(t)
	kerneltest.Processes(t)
	from, state, lives := map[string]int{}, map[string]string{}, 0
	lines := kerneltest.Until(t, kerneltest.Program(t), func(line string) bool {
		require.Regexp(t, `^ *\d+\.\d{6}  cpu \d+ +(forks|execs|exits|switches) +\S`, line)
		words := strings.Fields(line) // time, "cpu", CPU, source, text
		from[words[3]]++
		switch source, text := words[3], words[4:]; {
		case text[0] == "lost":
		case source == "forks":
			state[text[2]] = "forked"
		case source == "execs" && state[text[0]] == "forked":
			require.Contains(t, line, " executes /")
			state[text[0]] = "executes"
		case source == "exits" && state[text[0]] == "executes":
			lives++
		}
		return len(from) == 4 && lives >= 3
	})
	before := 0.0
	for _, line := range lines {
		if !strings.Contains(line, " lost ") {
			time, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, time, before)
			before = time
		}
	}
}

func TestNoPrivilege(t *testing.T) { kerneltest.Unprivileged(t) }
