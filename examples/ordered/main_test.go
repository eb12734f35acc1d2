package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the program.
func TestMain(m *testing.M) {
	if os.Getenv("ORDERED_TEST_PROGRAM") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) (stdout, stderr string, err error) {
	var out, errs strings.Builder
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "ORDERED_TEST_PROGRAM=1")
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Dir = "/"
	if args[0] == "-simulate" && os.Geteuid() == 0 { // it needs no privilege
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func TestStream(t *testing.T) {
	for _, args := range []string{"-workload", "-workload -mode slack -slack 2ms", "-simulate", "-simulate -mode slack"} {
		t.Run(args, func(t *testing.T) {
			simulated := strings.HasPrefix(args, "-simulate")
			if !simulated {
				kerneltest.Require(t)
			}
			out, stderr, err := program(t, append(strings.Fields(args), "-json", "-duration", "1s")...)
			require.NoError(t, err, stderr)
			require.Empty(t, stderr)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			var last uint64
			seen := map[string]uint64{}
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
				seen[e.Event]++
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
			require.NotZero(t, s.Events)
			require.Equal(t, simulated, s.Simulated)
			require.Equal(t, strings.Contains(args, "slack"), s.Mode == "slack")
			require.Zero(t, *s.OutOfOrder)
			require.Equal(t, s.Events-seen["lost"], s.Samples)
			require.Equal(t, s.Outputs, s.Samples+s.Lost+s.Unread)
			if !simulated {
				require.NotZero(t, seen["fork"])
				require.NotZero(t, seen["exec"])
				require.NotZero(t, seen["exit"])
			}
		})
	}
}

func TestText(t *testing.T) {
	out, _, err := program(t, "-simulate", "-duration", "100ms")
	require.NoError(t, err)
	require.Regexp(t, `^\d+\.\d{9}  CPU 0   fork        0  `, out)
	require.Contains(t, out, `{"summary":{`)
}

func TestVersion(t *testing.T) {
	out, _, err := program(t, "-version")
	require.NoError(t, err)
	require.Equal(t, perfbuf.Version().String()+"\n", out)
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"surprise"}, {"-mode", "guess"}, {"-nonsense"}} {
		_, stderr, err := program(t, args...)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.ExitCode())
		require.Contains(t, stderr, "-mode")
	}
}
