package demo

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	os.Unsetenv("NATS_URL")
	os.Setenv("TZ", "UTC")
	clitest.Program(Command)
	os.Exit(m.Run())
}

// line is one of what the demo prints as JSON.
type line struct {
	Type int
	UTC  time.Time
	Host string
	Lost struct {
		Count  uint64
		Reason string
	}
	Late    bool
	Summary *struct {
		Late  uint64
		Fleet struct {
			Hosts     map[string]struct{ Events, Lost, Gaps uint64 }
			Malformed uint64
			Unknown   []string
		}
	}
	Hosts   map[string]recorded
	InOrder bool `json:"in_order"`
}

// check checks what the demo prints as it does itself, from the outside.
func check(t *testing.T, output string, hosts int) {
	t.Helper()
	var all []line
	for text := range strings.Lines(output) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		all = append(all, l)
	}
	verdict, sum := all[len(all)-1], all[len(all)-2].Summary
	printed, lost := map[string]uint64{}, map[string]uint64{}
	var last time.Time
	for _, l := range all[:len(all)-2] {
		require.False(t, l.UTC.Before(last))
		require.False(t, l.Late)
		if last = l.UTC; l.Type == 9 {
			printed[l.Host]++
		} else {
			lost[l.Host] += l.Lost.Count
		}
	}
	require.True(t, verdict.InOrder)
	require.Len(t, verdict.Hosts, hosts)
	require.Zero(t, sum.Late+sum.Fleet.Malformed)
	for host, r := range verdict.Hosts {
		require.Positive(t, printed[host], host)
		require.Equal(t, []uint64{r.Read - r.SpoolFull, r.Lost + r.SpoolFull}, []uint64{printed[host], lost[host]}, host)
		require.Equal(t, []uint64{printed[host], lost[host]}, []uint64{sum.Fleet.Hosts[host].Events, sum.Fleet.Hosts[host].Lost}, host)
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	status, out, notes := clitest.Run(t, Command, "demo", "--json", "--hosts", "3", "--timeout", "3s", "--rate", "100", "--no-real", "--outage")
	require.Zero(t, status, notes)
	check(t, out, 3)
	require.Contains(t, notes, "the server runs again")
}

// With this host among them.
func TestReal(t *testing.T) {
	t.Parallel()
	kerneltest.Require(t)
	cmd, _ := clitest.Command(t, "fleet", "demo", "--json", "--hosts", "1", "--timeout", "1s", "--rate", "200")
	out := &strings.Builder{}
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for { // something happens here all the time
		select {
		case err := <-ended:
			require.NoError(t, err, out.String())
			check(t, out.String(), 2)
			return
		default:
			require.NoError(t, exec.Command("true").Run())
		}
	}
}

// Without permission to read this host, it shows the others.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	kerneltest.RequireRoot(t)
	cmd, stderr := clitest.Command(t, "fleet", "demo", "--hosts", "2", "--timeout", "1s", "--rate", "50") // rings that nobody reads for seconds have room for it
	cmd.Env = append(cmd.Env, "TMPDIR=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s%s", out, stderr)
	require.Contains(t, stderr.String(), "fleet demo: without this host: ")
	require.Contains(t, string(out), "Complete: no event of these hosts is missing between these times.")
	require.Regexp(t, `\nchecked: in order, and all that the hosts have recorded was printed, or is counted as lost\n$`, string(out))
}

// Ctrl-C ends it early, in good order.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	cmd, _ := clitest.Command(t, "fleet", "demo", "--hosts", "2", "--timeout", "1h", "--no-real", "--json", "--rate", "200")
	out := clitest.NewOutput(t)
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	for !strings.Contains(out.String(), "\n") {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait())
	check(t, out.String(), 2)
}

func TestUsage(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
		"frobnicate":               `ringfold fleet: unknown command "frobnicate" (see ringfold fleet --help)`,
		"demo x":                   `unknown command "x" for "ringfold fleet demo" (see ringfold fleet demo --help)`,
		"demo --hosts 0 --no-real": "--hosts must be from 1 to 1000",
	})
}
