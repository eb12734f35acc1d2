package fleet

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringfold/ringfold/internal/kerneltest"
)

// checkDemo runs the demo, and checks what it prints as it does itself, from the outside.
func checkDemo(t *testing.T, args ...string) (hosts map[string]any) {
	t.Helper()
	return checkOutput(t, output(t, append([]string{"demo", "--json"}, args...)...))
}

func checkOutput(t *testing.T, output string) (hosts map[string]any) {
	t.Helper()
	out := lines(t, output)
	summary := out[len(out)-1]["summary"].(map[string]any)
	about := out[len(out)-2]
	require.Equal(t, true, about["in_order"])
	printed := map[string]float64{}
	missing := map[string]float64{}
	last := ""
	for _, e := range out[:len(out)-2] {
		require.Contains(t, e, "time")
		at := sortable(e["time"].(string))
		require.LessOrEqual(t, last, at)
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

// sortable is a time with all nine digits of its ns, which RFC 3339 with ns leaves out at the end if they are 0.
func sortable(at string) string {
	seconds, ns, _ := strings.Cut(strings.TrimSuffix(at, "Z"), ".")
	return seconds + "." + (ns + "000000000")[:9]
}

func TestDemo(t *testing.T) {
	t.Parallel()
	require.Len(t, checkDemo(t, "--hosts", "4", "--timeout", "2s", "--rate", "200", "--no-real"), 4)
}

func TestDemoOutage(t *testing.T) {
	t.Parallel()
	hosts := checkDemo(t, "--hosts", "3", "--timeout", "3s", "--no-real", "--outage")
	require.Len(t, hosts, 3)
}

func TestDemoText(t *testing.T) {
	t.Parallel()
	out := output(t, "demo", "--hosts", "2", "--timeout", "1s", "--rate", "50", "--no-real") // rings that nobody reads for seconds have room for it
	require.True(t, strings.HasPrefix(out, "WALL TIME "), out)
	require.Contains(t, out, "events of 2 hosts\n")
	require.Contains(t, out, "\ncomplete: no event of these hosts is missing between these times.")
	require.True(t, strings.HasSuffix(out, "\nchecked: in order, and all that the agents have read was printed, or is in a gap\n"), out)
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

func TestDemoUnprivileged(t *testing.T) {
	t.Parallel()
	kerneltest.RequireRoot(t)
	cmd := program(t, "demo", "--hosts", "1", "--timeout", "1s", "--rate", "200")
	cmd.Env = append(cmd.Env, "TMPDIR=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s%s", out, &stderr)
	require.Contains(t, stderr.String(), "fleet demo: without this host: ")
	require.Contains(t, string(out), "events of 1 hosts\n")
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
