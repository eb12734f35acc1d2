package doctor

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	clitest.Program(Command)
	os.Exit(m.Run())
}

// nobody runs it as a user without privileges.
func nobody(t *testing.T, attr syscall.SysProcAttr, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give privilege up")
	}
	var out bytes.Buffer
	cmd, errs := clitest.Command(t, append([]string{"doctor"}, args...)...)
	cmd.Dir = "/"
	cmd.Stdout = &out
	cmd.SysProcAttr = &attr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Skip(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// names are those of all checks, in the order in which they come.
func names(r Report) (all []string) {
	for _, c := range r.Checks {
		all = append(all, c.Name)
	}
	return all
}

var all = []string{"kernel", "CPUs", "clock", "BTF", "CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN", "CAP_IPC_LOCK", "CAP_SYS_PTRACE", "sandbox",
	"perf_event_paranoid", "locked memory", "open files", "rings", "exact order", "programs", "doorbell", "events"}

func status(t *testing.T, r Report, name string) Status {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c.Status
		}
	}
	require.Fail(t, "no check "+name)
	return ""
}

// Whatever does not work comes with what to do about it.
func requireFixes(t *testing.T, r Report) {
	t.Helper()
	for _, c := range r.Checks {
		if c.Status == Bad {
			require.NotEmpty(t, c.Fix, "%s: %s", c.Name, c.Found)
		}
	}
}

func TestPrivileged(t *testing.T) {
	kerneltest.Require(t)
	code, out, errs := clitest.Run(t, Command, "--json")
	require.Zero(t, code, out)
	require.Empty(t, errs)
	require.Equal(t, 1, strings.Count(out, "\n"))
	var r Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.ElementsMatch(t, all, names(r))
	require.Zero(t, r.BadChecks)
	for _, name := range []string{"kernel", "BTF", "rings", "programs", "doorbell", "events"} {
		require.Equal(t, OK, status(t, r, name), out)
	}
	require.NotEmpty(t, r.Version)
	require.NotEmpty(t, r.Kernel)
	require.NotEmpty(t, r.Barriers.Provider)
	if r.Barriers.Provider != "membarrier" {
		require.NotZero(t, r.Barriers.CostNS)
	}
}

func TestText(t *testing.T) {
	kerneltest.Require(t)
	code, out, errs := clitest.Run(t, Command)
	require.Zero(t, code, out)
	require.Empty(t, errs)
	for _, l := range strings.Split(out, "\n")[1:] {
		require.LessOrEqual(t, utf8.RuneCountInString(l), 100)
	}
	for _, name := range all {
		require.Regexp(t, `(?m)^(ok|warn)  +`+name+` +\S`, out)
	}
	require.Regexp(t, `(?m)^ok    events              an event came, .+s after it had happened$`, out)
	require.Regexp(t, `(?m)^All works`, out)
}

// Without privileges it says what is missing, for each check, and ends with status 1.
func TestUnprivileged(t *testing.T) {
	attr := syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, stderr, code := nobody(t, attr, "--json")
	require.Equal(t, 1, code)
	var r Report
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	require.ElementsMatch(t, all, names(r))
	for _, name := range []string{"CAP_BPF", "CAP_PERFMON", "rings", "programs"} {
		require.Equal(t, Bad, status(t, r, name))
	}
	require.Equal(t, 4, r.BadChecks)
	requireFixes(t, r)
	require.Equal(t, "ringfold doctor: 4 checks are bad\n", stderr)
	require.Empty(t, r.Capabilities)
	require.Equal(t, 65534, r.UID)

	out, _, code = nobody(t, attr)
	require.Equal(t, 1, code)
	require.Regexp(t, `(?m)^bad   CAP_BPF             no \(uid 65534\): `, out)
	require.Contains(t, out, "-> Run it as root (sudo), or grant cap_bpf")
	require.Contains(t, out, "-> Run it as root (sudo), or grant that: setcap") // what loading says
	require.Regexp(t, `(?m)^4 bad, \d+ warnings\.$`, out)
}

// Root of a user namespace has capabilities that do not count.
func TestUserNamespace(t *testing.T) {
	out, _, code := nobody(t, syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 65534, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 65534, Size: 1}},
	})
	require.Equal(t, 1, code)
	require.Regexp(t, `(?m)^bad   CAP_BPF             `, out)
	require.Regexp(t, `(?m)^warn  sandbox             a user namespace`, out)
	require.Regexp(t, `(?m)^bad   rings .*\n +-> Only capabilities of the initial user namespace count`, out)
}

// A limit on open files that is too low for a ring is found, and what else there is to say is said.
func TestOpenFiles(t *testing.T) {
	kerneltest.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("as root")
	}
	cmd := exec.Command("/bin/sh", "-c", "ulimit -n 9; exec "+self(t)+" doctor --json")
	cmd.Env = append(os.Environ(), clitest.Env())
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.Equal(t, 1, exit.ExitCode())
	var r Report
	require.NoError(t, json.Unmarshal(out, &r), "%s", out)
	require.Equal(t, Warn, status(t, r, "open files"))
	require.NotZero(t, r.BadChecks)
	requireFixes(t, r)
	require.Equal(t, "events", r.Checks[len(r.Checks)-1].Name)
}

// Where neither /proc nor /sys is mounted, it says so and goes on to the end.
func TestNothingMounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting takes root")
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c",
		"mount -t tmpfs none /sys && mount -t tmpfs none /proc && exec "+self(t)+" doctor --json")
	cmd.Env = append(os.Environ(), clitest.Env())
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	var r Report
	require.NoError(t, json.Unmarshal(out, &r), "%s", out)
	require.ElementsMatch(t, all, names(r))
	for _, name := range []string{"CPUs", "BTF", "rings"} {
		require.Equal(t, Bad, status(t, r, name))
	}
	requireFixes(t, r)
	for _, name := range []string{"sandbox", "perf_event_paranoid"} {
		require.Equal(t, Warn, status(t, r, name))
	}
	require.Contains(t, r.Capabilities, "CAP_SYS_ADMIN")
}

// self is the path of the test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}
