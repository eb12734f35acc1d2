package tail

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// A mistake in the command line is told in one line.
func TestUsage(t *testing.T) {
	for _, command := range []func() *cobra.Command{Command, Replay} {
		status, out, notes := clitest.Run(t, command, "--help")
		require.Zero(t, status)
		require.Empty(t, notes)
		require.Contains(t, out, "--filter")
		for line := range strings.Lines(out) {
			require.LessOrEqual(t, len(line), 129)
		}
	}
	clitest.Misuse(t, Command, map[string]string{
		"surprise":                         `"surprise": name a map by id N, name S or pinned PATH, or a recording by file PATH`,
		"--nonsense":                       "--nonsense",
		"id":                               `what comes behind "id" is missing`,
		"id 0":                             "id 0: an id is a number from 1 on",
		"name n,lanes=0":                   "an id is a number from 1 on",
		"--mode some":                      `"some" is none of exact, slack, unordered`,
		"--mode exact --slack 1s":          "exact mode does not guess",
		"--slack -1s":                      "must not be negative",
		"--btf-prog 5":                     "where to look for a --type",
		"--type t --btf-prog 5 --btf file": "give one of them",
		"-n x":                             "invalid argument \"x\" for \"-n, --count\"",
		"-p 0":                             "give its struct by --type",
		"--cpus 3-":                        `"3-" is not a list of CPUs`,
		"--fields a":                       "say what events are by --type",
		"--filter pid==":                   "pid ==: a value is missing",
		"--ring-size 1x":                   `"1x" is not a size`,
		"--process p id 3":                 "it goes with name S, or alone",
		"--since 1s":                       "--since is for a recording",
		"--event e":                        "--event and --wall-clock are for recordings",
		"a.data id 3":                      "maps and recordings are of different times",
		"a.data --steal":                   "are for maps, not for a recording",
		"a.data --utc":                     "--utc is for maps",
		"a.data -- true":                   "a command to run is for maps",
		"id 3 --":                          "a command to run is missing",
		"-o yaml":                          `"yaml" is none of text, compact, json`,
	})
	clitest.Misuse(t, Replay, map[string]string{
		"":                                  "name a recording",
		"a id 3 --speed 0":                  "a speed is a number such as 0.5 or 10, or max",
		"a --speed fast":                    "a speed is a number such as 0.5 or 10, or max",
		"a --steal":                         "unknown flag: --steal",
		"a --speed 1 --timeout 0s --pid -1": "must not be negative",
	})
}

// A command runs while events are read, and its end is theirs. What it prints is not among them.
func TestCommandToRun(t *testing.T) {
	e := load(t)
	r := start(t, "id", e.id, "--steal", "--json", "--", "sh", "-c", "echo begun; read line; exit 3")
	e.Emit(0, 5, 24)
	_, err := io.WriteString(r.Stdin, "go\n")
	require.NoError(t, err)
	events, s := parseJSON(t, r.Wait(t))
	require.Len(t, events, 5)
	require.Equal(t, &source.Command{Args: []string{"sh", "-c", "echo begun; read line; exit 3"}, Status: "exit status 3", Exit: 3}, s.Command)
	require.Contains(t, r.Notes.String(), "begun\n")

	// It ends with ours.
	r = start(t, "id", e.id, "--steal", "-n", "1", "--", "sleep", "1000")
	e.Emit(0, 1, 24)
	require.Contains(t, r.Wait(t), "\nThe command sleep 1000 ended with signal: terminated.\n")

	fails(t, "running /no/such/program: ", "id", e.id, "--steal", "--", "/no/such/program")
}

// timeout(1) signals twice: the second signal takes away no summary, whenever it comes.
func TestSignalledTwice(t *testing.T) {
	caught := make(chan os.Signal, 1) // so that children end at SIGHUP by default, also if the tests run under nohup
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	e := load(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		// The child holds up the end. It says that the first signal has come, and ends with its stdin.
		r := start(t, "id", e.id, "--steal", "-q", "--", "sh", "-c", `trap 'echo signalled' TERM; echo begun; read line; read line; exit 3`)
		r.Notes.Wait(t, "begun")
		r.Signal(t, s)
		r.Notes.Wait(t, "signalled")
		r.Signal(t, s)
		for pending := true; pending; { // until it has been taken
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID))
			require.NoError(t, err)
			pending = !strings.Contains(string(status), "ShdPnd:\t0000000000000000\n")
		}
		require.NoError(t, r.Stdin.Close())
		require.Contains(t, r.Wait(t), "\n0 events and 0 lost of ")
	}
}

// Under nohup, the hang-up of a terminal does not end it.
func TestNoHangUp(t *testing.T) {
	e := load(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$@"`, "", self, "tail", "id", e.id, "--steal", "-q")
	cmd.Env = append(os.Environ(), clitest.Env())
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() }) // if the test has failed
	_, err = bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	require.NoError(t, err)
	require.Regexp(t, `SigIgn:\t[0-9a-f]{15}[13579bdf]\n`, string(status))
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
}

// Maps are found by the process that holds them, and read on some CPUs only.
func TestProcess(t *testing.T) {
	e := load(t)
	for _, args := range [][]string{{}, {"name", "events"}} {
		r := start(t, append(args, "--process", strconv.Itoa(os.Getpid()), "--steal", "--cpus", "1", "--utc", "--json")...)
		e.emit(3, 24)
		events, s := parseJSON(t, r.Interrupt(t))
		require.Len(t, events, 3)
		require.Equal(t, e.id, fmt.Sprint(s.Maps[0].ID))
		for _, ev := range events {
			require.Equal(t, 1, ev.CPU)
			require.Regexp(t, `^\d{4}-\d\d-\d\dT.*Z$`, ev.UTC)
		}
	}
	fails(t, `no process "no such" holds a perf event array or BPF ring buffer`, "--process", "no such")
}

// Events are filtered by their fields, losses are not.
func TestFilter(t *testing.T) {
	s := onLibbpf(t)
	for filter, want := range map[string]int{
		"cold == -40 && color == GREEN": 2, "cold == -41": 0, "at.x < 0 && size > 30": 2, "size == 12": 1, "yes == false": 0, "sign == -1": 2,
	} {
		r := start(t, "id", s.id, "--steal", "--type", "sample", "--filter", filter, "--json")
		s.output(s.size)
		s.output(12)
		s.output(s.size)
		events, sum := parseJSON(t, r.Interrupt(t))
		require.Len(t, events, want, filter)
		require.EqualValues(t, want, sum.Events)
		require.EqualValues(t, 3-want, sum.Filtered)
	}
	for args, want := range map[string]string{
		"--filter nonsense==1":         "there is no field nonsense: events have big, comm, ",
		"--filter cold==x":             `cold is a number, not "x"`,
		"--filter at==1":               "at is a struct",
		"--filter color<GREEN":         "by == and != only",
		"--filter color==NONE":         "color has no value NONE",
		"--filter kind==x":             "kind is sample, lost or corrupt",
		"--fields comm,nonsense":       "--fields: there is no field nonsense",
		"--pid 5":                      "events have no field pid or tgid",
		"--filter cpu==1&&time<x":      "time is that since the first event",
		"--filter path==1&&comm=='a'":  "path is an array",
		"--filter bytes==xyz":          "hexadecimal digits",
		"--filter bytes>01":            "by == and != only",
		"--filter timestamp==tomorrow": "timestamp is a number",
	} {
		fails(t, want, append([]string{"id", s.id, "--steal", "--type", "sample"}, strings.Fields(args)...)...)
	}
}
