package fleet

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// checkOutput checks what the demo prints as it does itself, from the outside.
func checkOutput(t *testing.T, output string) (hosts map[string]any) {
	t.Helper()
	out := lines(t, output)
	summary := out[len(out)-1]["summary"].(map[string]any)
	about := out[len(out)-2]
	require.Equal(t, true, about["in_order"])
	printed := map[string]float64{}
	missing := map[string]float64{}
	var last time.Time
	for _, e := range out[:len(out)-2] {
		at, err := time.Parse(time.RFC3339Nano, e["time"].(string))
		require.NoError(t, err)
		require.False(t, at.Before(last))
		last = at
		host := e["host"].(string)
		if e["event"] != "gap" {
			printed[host]++
		} else if n, ok := e["missing"].(float64); ok && e["reason"] == "spool_full" {
			missing[host] += n
		}
	}
	hosts = about["agents"].(map[string]any)
	for host, a := range hosts {
		require.Positive(t, printed[host], host)
		require.Equal(t, a.(map[string]any)["read"], printed[host]+missing[host], host)
		require.Equal(t, printed[host], summary["hosts"].(map[string]any)[host].(map[string]any)["events"])
	}
	require.Zero(t, summary["late"])
	require.Zero(t, summary["malformed"])
	return hosts
}

func TestDemoOutage(t *testing.T) {
	t.Parallel()
	out := output(t, "demo", "--json", "--hosts", "3", "--timeout", "3s", "--rate", "100", "--no-real", "--outage")
	require.Len(t, checkOutput(t, out), 3)
}

// With this host among them.
func TestDemoReal(t *testing.T) {
	t.Parallel()
	kerneltest.Require(t)
	cmd := program(t, "demo", "--json", "--hosts", "1", "--timeout", "1s", "--rate", "200")
	out := &strings.Builder{}
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for { // something happens here all the time
		select {
		case err := <-ended:
			require.NoError(t, err, out.String())
			require.Len(t, checkOutput(t, out.String()), 2)
			return
		default:
			require.NoError(t, exec.Command("true").Run())
		}
	}
}

// Without permission to read this host, it shows the others.
func TestDemoUnprivileged(t *testing.T) {
	t.Parallel()
	kerneltest.RequireRoot(t)
	cmd := program(t, "demo", "--hosts", "2", "--timeout", "1s", "--rate", "50") // rings that nobody reads for seconds have room for it
	cmd.Env = append(cmd.Env, "TMPDIR=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s%s", out, &stderr)
	require.Contains(t, stderr.String(), "fleet demo: without this host: ")
	require.Regexp(t, `(?s)^WALL TIME .* events of 2 hosts\n.*\ncomplete: no event of these hosts is missing between these times\.`+
		`.*\nchecked: in order, and all that the agents have read was printed, or is in a gap\n$`, string(out))
}

// Ctrl-C ends it early, in good order.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	r := start(t, "demo", "--hosts", "2", "--timeout", "1h", "--no-real", "--json", "--rate", "200")
	require.True(t, r.Scan())
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	last := ""
	for r.Scan() {
		last = r.Text()
	}
	require.Contains(t, last, `{"summary":`)
	require.NoError(t, r.cmd.Wait())
}
