package demo

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestUsage(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
		"surprise":                 `unknown command "surprise"`,
		"--nonsense":               "nonsense",
		"-n -1":                    `invalid argument "-1"`,
		"--slack -1s":              "must not be negative",
		"--mode guess":             `"guess" is none of exact, slack`,
		"--mode exact --slack 1ms": "--slack is for --mode slack: exact mode",
		"--seed 3":                 "--seed is for --simulate",
		"--ring-size much":         "is not a size",
	})
}

// overtaken says that a child has overtaken its fork, read ring by ring: most often some do in a run, but on a busy machine none may.
func overtaken(out string) bool { return strings.Contains(out, " before its fork.\n") }

// story is the output for people: at most 40 lines of 100 columns, and the same events on both sides.
func story(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.LessOrEqual(t, len(lines), 40, out)
	for _, l := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(l), 100, l)
	}
	require.Regexp(t, `(?m)^Read ring by ring, [\d,]+ of [\d,]+ events \(\d+ %\) come out of order: here an? \w+ before its fork\.$`, out)
	_, table, _ := strings.Cut(out, "  READ RING BY RING")
	table, _, _ = strings.Cut(table, "\n\n")
	var left, right []string
	wrong := 0
	for _, l := range strings.Split(table, "\n")[2:] {
		r := []rune(l)
		if r[0] == '>' {
			wrong++
		}
		left = append(left, strings.Join(strings.Fields(strings.TrimPrefix(string(r[:49]), ">")), " "))
		right = append(right, strings.Join(strings.Fields(string(r[49:])), " "))
	}
	require.Equal(t, 2, wrong, out)
	require.NotEqual(t, left, right)
	require.ElementsMatch(t, left, right)
	require.Regexp(t, `(?m)^Mode \w+: (all )?in order`, out)
	require.Regexp(t, `(?m)^[\d,]+ outputs = [\d,]+ read \+ [\d,]+ lost`, out)
}

func TestStory(t *testing.T) {
	kerneltest.Require(t)
	if len(usableCPUs(t)) < 2 {
		t.Skip("one ring is always in order")
	}
	svg := filepath.Join(t.TempDir(), "hero.svg")
	var out string
	for !overtaken(out) {
		var status int
		var errs string
		status, out, errs = clitest.Run(t, Command, "--svg", svg)
		require.Zero(t, status, errs)
		require.Empty(t, errs)
	}
	story(t, out)
	require.Regexp(t, `^Starting processes on \d+ CPUs, and following their life for 3s\. Ctrl-C ends it\.\n\nRead ring`, out)

	drawn, err := os.ReadFile(svg)
	require.NoError(t, err)
	headline := strings.Split(out, "\n")[2]
	require.Contains(t, string(drawn), ">"+headline+"<")
	require.Equal(t, 2, strings.Count(string(drawn), `class="bad"`))
	require.Equal(t, 2, strings.Count(string(drawn), `class="good"`))
	require.NoError(t, xml.Unmarshal(drawn, new(struct{})), "well-formed")
}

// Who may not load programs gets a simulation, and is told.
func TestNoPrivilege(t *testing.T) {
	kerneltest.RequireRoot(t)
	for _, args := range []string{"--timeout 2s", "--mode slack -n 5"} {
		whole := !strings.Contains(args, "slack")
		var out []byte
		var stderr *clitest.Output
		for again := true; again; again = whole && !overtaken(string(out)) {
			var cmd *exec.Cmd
			cmd, stderr = program(t, strings.Fields(args)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			var err error
			out, err = cmd.Output()
			require.NoError(t, err, stderr.String())
		}
		first, rest, _ := strings.Cut(string(out), "\n")
		require.Equal(t, "SIMULATED: these processes and CPUs are made up, and no BPF runs.", first)
		if whole {
			story(t, rest)
		}
		require.Regexp(t, `^ringfold demo: this is a simulation, as BPF is not permitted here: .*uid 65534 lacks CAP_BPF and CAP_PERFMON: run it as root \(sudo\).*\n$`, stderr.String())
	}
}

func TestAll(t *testing.T) {
	for _, args := range []string{"--all -n 50", "-o compact -n 50 --mode slack"} {
		status, out, errs := clitest.Run(t, Command, append(strings.Fields(args), "--simulate")...)
		require.Zero(t, status, errs)
		require.Empty(t, errs)
		lines := strings.Split(out, "\n")
		require.Regexp(t, `^ +TIME +DELTA  CPU  EVENT `, lines[2])
		for _, l := range lines[3:53] {
			require.Regexp(t, `^ +-?\d+\.\d{6} +[+-][\d.]+[nµm]?s +\d+  ((fork|exec|exit)     +\d+  \S|LOST )`, l)
		}
		require.Empty(t, lines[53])
		require.Contains(t, out, "\n50 events from 4 simulated CPUs in ")
	}
}

func TestClosedPipe(t *testing.T) {
	kerneltest.Require(t)
	for _, format := range []string{"--all", "--json"} {
		cmd, stderr := program(t, format, "--timeout", "0")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.NoError(t, cmd.Wait())
		require.Empty(t, stderr.String())
	}
}

// With Ctrl-C while nothing reads its output it would wait for ever: further signals kill it.
func TestInsist(t *testing.T) {
	kerneltest.Require(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	cmd, _ := program(t, "--all", "--timeout", "0")
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	_, err = r.Read(make([]byte, 1)) // until it prints
	require.NoError(t, err)
	fill, err := unix.Open(fmt.Sprint("/proc/self/fd/", w.Fd()), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer unix.Close(fill)
	for err == nil {
		_, err = unix.Write(fill, []byte{0})
	}
	require.Equal(t, unix.EAGAIN, err)

	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	for {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-gone:
			require.Equal(t, os.Interrupt, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
