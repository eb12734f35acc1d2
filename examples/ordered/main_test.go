package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

// simulation is a command that runs the program on a simulated kernel, which takes no privilege.
func simulation(t *testing.T, args ...string) *exec.Cmd {
	cmd := kerneltest.Program(t, append(args, "-simulate")...)
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return cmd
}

func TestStream(t *testing.T) {
	for _, mode := range []string{"exact", "slack"} {
		t.Run(mode, func(t *testing.T) {
			kerneltest.Require(t)
			stream(t, kerneltest.Program(t, "-workload", "-mode", mode, "-json"), mode, false)
		})
		t.Run("simulated "+mode, func(t *testing.T) { stream(t, simulation(t, "-mode", mode, "-json"), mode, true) })
	}
}

// stream ends the program when it has printed events of all kinds, and checks what it prints.
func stream(t *testing.T, cmd *exec.Cmd, mode string, simulated bool) {
	missing := []string{`"fork"`, `"exec"`, `"exit"`}
	if simulated {
		missing = missing[:1]
	}
	lines := kerneltest.Until(t, cmd, func(line string) bool {
		missing = slices.DeleteFunc(missing, func(kind string) bool { return strings.Contains(line, `"event":`+kind) })
		return len(missing) == 0
	})
	var last, losses uint64
	for _, l := range lines[:len(lines)-1] {
		var e struct {
			TimeNS uint64 `json:"time_ns"`
			CPU    *int   `json:"cpu"`
			Event  string `json:"event"`
			Late   bool   `json:"late"`
		}
		require.NoError(t, json.Unmarshal([]byte(l), &e), l)
		require.NotNil(t, e.CPU)
		require.True(t, e.Late || e.TimeNS >= last, l)
		last = max(last, e.TimeNS)
		if e.Event == "lost" {
			losses++
		}
	}
	var end struct {
		Summary struct {
			Mode                                   string
			Simulated                              bool
			Events, Outputs, Samples, Lost, Unread uint64
			OutOfOrder                             *uint64 `json:"out_of_order"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &end))
	s := end.Summary
	require.EqualValues(t, len(lines)-1, s.Events)
	require.Equal(t, simulated, s.Simulated)
	require.Equal(t, mode, s.Mode)
	require.Zero(t, *s.OutOfOrder)
	require.Equal(t, s.Events-losses, s.Samples)
	require.Equal(t, s.Outputs, s.Samples+s.Lost+s.Unread)
}

func TestText(t *testing.T) {
	lines := kerneltest.Until(t, simulation(t), func(string) bool { return true })
	require.Regexp(t, `^\d+\.\d{9}  CPU 0   fork        0  `, lines[0])
	require.Contains(t, lines[len(lines)-1], `{"summary":{`)
}

// The duration is that of reading.
func TestDuration(t *testing.T) {
	out, err := simulation(t, "-duration", "1ms").CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), `{"summary":{`)

	kerneltest.Require(t)
	require.NoError(t, kerneltest.Program(t, "-duration", "1ms").Run())
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"surprise"}, {"-mode", "guess"}, {"-nonsense"}} {
		out, err := kerneltest.Program(t, args...).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.ExitCode())
		require.Contains(t, string(out), "-mode")
	}
}
