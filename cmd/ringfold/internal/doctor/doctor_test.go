package doctor

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
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
	kerneltest.RequireRoot(t)
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

// after runs it as root behind shell commands, in a mount namespace of its own.
func after(t *testing.T, commands string) Report {
	t.Helper()
	kerneltest.RequireRoot(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("unshare", "--mount", "sh", "-c", commands+" && exec "+self+" doctor --json")
	cmd.Env = append(os.Environ(), clitest.Env())
	out, err := cmd.Output()
	require.Error(t, err)
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	return parsed(t, string(out))
}

// parsed checks a report of --json: it has all checks, and for each that is bad, what to do about it.
func parsed(t *testing.T, out string) (r Report) {
	t.Helper()
	require.Equal(t, 1, strings.Count(out, "\n"))
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	require.NotEmpty(t, r.Version)
	var names []string
	count := map[Status]int{}
	for _, c := range r.Checks {
		names = append(names, c.Name)
		count[c.Status]++
		require.False(t, c.Status == Bad && c.Fix == "", "%s: %s", c.Name, c.Found)
	}
	require.ElementsMatch(t, all, names)
	require.Equal(t, []int{count[Bad], count[Warn]}, []int{r.BadChecks, r.Warnings})
	return r
}

var all = []string{"kernel", "BPF ring buffers", "CPUs", "clock", "BTF", "CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN", "CAP_IPC_LOCK", "CAP_SYS_PTRACE", "sandbox",
	"perf_event_paranoid", "locked memory", "open files", "rings", "exact order", "programs", "doorbell", "events"}

// requireStatus requires that of some checks.
func requireStatus(t *testing.T, want Status, r Report, names ...string) {
	t.Helper()
	for _, c := range r.Checks {
		require.True(t, c.Status == want || !slices.Contains(names, c.Name), "%+v", c)
	}
}

func TestPrivileged(t *testing.T) {
	kerneltest.Require(t)
	code, out, errs := clitest.Run(t, Command, "--json")
	require.Zero(t, code, out)
	require.Empty(t, errs)
	r := parsed(t, out)
	require.Zero(t, r.BadChecks)
	want := OK
	if kerneltest.AtLeast(t, 6, 15) && !kerneltest.AtLeast(t, 6, 19) {
		want = Warn
	}
	requireStatus(t, want, r, "BPF ring buffers")
	requireStatus(t, OK, r, "kernel", "BTF", "rings", "programs", "doorbell", "events")

	code, out, errs = clitest.Run(t, Command)
	require.Zero(t, code, out)
	require.Empty(t, errs)
	for _, l := range strings.Split(out, "\n")[1:] {
		require.LessOrEqual(t, utf8.RuneCountInString(l), 100)
	}
	for _, name := range all {
		require.Regexp(t, `(?m)^(ok|warn)  +`+name+` +\S`, out)
	}
	require.Regexp(t, `(?m)^(ok|warn)  +exact order         by \S+`, out)
	require.Regexp(t, `(?m)^ok    events              an event came, .+s after it had happened$`, out)
	require.Regexp(t, `(?m)^All works`, out)
}

// Without privileges it says what is missing, for each check, and ends with status 1.
func TestUnprivileged(t *testing.T) {
	attr := syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, stderr, code := nobody(t, attr, "--json")
	require.Equal(t, 1, code)
	r := parsed(t, out)
	requireStatus(t, Bad, r, "CAP_BPF", "CAP_PERFMON", "rings", "programs")
	require.Equal(t, 4, r.BadChecks)
	require.Equal(t, "ringfold doctor: bad checks: 4\n", stderr)

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
	require.Regexp(t, `(?m)^bad   rings (.*\n +)+-> Only capabilities of the initial user namespace count`, out)
}

// A limit on open files that is too low for a ring is found, and the checks go on.
func TestOpenFiles(t *testing.T) {
	r := after(t, "ulimit -n 9")
	requireStatus(t, Warn, r, "open files")
	require.Equal(t, "events", r.Checks[len(r.Checks)-1].Name)
}

// Where neither /proc nor /sys is mounted, it says so and goes on to the end.
func TestNothingMounted(t *testing.T) {
	r := after(t, "mount -t tmpfs none /sys && mount -t tmpfs none /proc")
	requireStatus(t, Bad, r, "CPUs", "BTF", "rings")
	requireStatus(t, Warn, r, "sandbox", "perf_event_paranoid")
	requireStatus(t, OK, r, "CAP_SYS_ADMIN")
}
