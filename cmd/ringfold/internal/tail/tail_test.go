package tail

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	clitest.Program(Command, Replay)
	leak.Main(m)
}

// start runs tail in a process of its own, and returns when its rings are set up.
func start(t *testing.T, args ...string) *clitest.Running {
	t.Helper()
	return clitest.Spawn(t, "reading the map", append([]string{"tail"}, args...)...)
}

// fails runs tail, which must fail with a line that has this text, before it takes over a map.
func fails(t *testing.T, want string, args ...string) {
	t.Helper()
	status, out, notes := clitest.Run(t, Command, args...)
	require.Equal(t, 1, status, args)
	require.Empty(t, out, args)
	require.Contains(t, notes, want, args)
	require.NotContains(t, notes, "reading the map", args)
}

// emitter is a loaded program that outputs on all CPUs, with the id of its map.
type emitter struct {
	*kerneltest.Emitter
	cpus []int
	id   string
}

func load(t *testing.T) emitter {
	e := kerneltest.Load(t)
	return emitter{e, kerneltest.OnlineCPUs(t), clitest.MapID(t, e.MapFD())}
}

// emit has each CPU output in turn.
func (e emitter) emit(rounds, size int) (n int) {
	for range rounds {
		for _, cpu := range e.cpus {
			e.Emit(cpu, 1, size)
			n++
		}
	}
	return n
}

// object is what bpftool prints, and our own keys.
type object struct {
	Type      int
	CPU       int
	Index     int
	Timestamp uint64
	Data      []int
	Lost      *struct{ ID, Count, After uint64 }
	Fields    json.RawMessage
	Late      bool
	Map       string
	UTC       string
	Summary   *summary
}

func (o object) bytes() []byte {
	b := make([]byte, len(o.Data))
	for i, c := range o.Data {
		b[i] = byte(c)
	}
	return b
}

func parseJSON(t *testing.T, out string) (events []object, s summary) {
	t.Helper()
	for line := range strings.Lines(out) {
		var o object
		require.NoError(t, json.Unmarshal([]byte(line), &o), line)
		events = append(events, o)
	}
	require.NotEmpty(t, events)
	last := events[len(events)-1]
	require.NotNil(t, last.Summary)
	return events[:len(events)-1], *last.Summary
}

// Every event of all CPUs comes, in the order of time, whole.
func TestJSON(t *testing.T) {
	e := load(t)
	for _, mode := range [][]string{{}, {"--slack", "1s"}} { // patient, so that nothing is late
		r := start(t, append([]string{"id", e.id, "--steal", "--json"}, mode...)...)
		next := map[int]uint64{}
		for _, cpu := range e.cpus {
			next[cpu], _ = e.Counts(cpu)
		}
		n := e.emit(50, 100)
		events, s := parseJSON(t, r.Interrupt(t))
		require.Len(t, events, n)
		for i, o := range events {
			require.Equal(t, recordSample, o.Type)
			require.Equal(t, o.CPU, o.Index)
			require.False(t, o.Late)
			p, err := kerneltest.Check(o.bytes())
			require.NoError(t, err)
			require.Equal(t, e.cpus[i%len(e.cpus)], p.CPU)
			require.Equal(t, next[p.CPU], p.Seq)
			next[p.CPU]++
			require.Equal(t, o.CPU, p.CPU)
			if i > 0 {
				require.GreaterOrEqual(t, o.Timestamp, events[i-1].Timestamp)
			}
		}
		require.EqualValues(t, n, s.Events)
		require.Zero(t, s.Lost+s.Late+s.Unprinted)
		require.Equal(t, e.id, strconv.Itoa(int(s.Maps[0].ID)))
		require.Len(t, s.CPUs, len(e.cpus))
		for _, c := range s.CPUs {
			require.EqualValues(t, 50, c.Events)
		}
		require.Contains(t, r.Notes.String(), "no ring in it: nobody is silenced")
	}
}

func TestText(t *testing.T) {
	e := load(t)
	r := start(t, "id", e.id, "--steal", "-n", "3")
	e.Emit(0, 5, 24)
	lines := strings.Split(r.Wait(t), "\n")
	require.Equal(t, "           TIME CPU   LEN  DATA", lines[0])
	require.Regexp(t, `^    0\.000000000   0    28  0000  00 00 00 00 00 00 00 00  18 00 00 08 00 00 00 00  \|\.{16}\|$`, lines[1])
	require.Regexp(t, `^ {27}0010  [0-9a-f ]+ \|.{12}\|$`, lines[2])
	require.Regexp(t, `^ +\d+\.\d{9}   0    28  0000  01 00 `, lines[3])
	require.Contains(t, strings.Join(lines[7:], "\n"), "\n3 events and 0 lost of events (id "+e.id+") in ")
	require.Contains(t, strings.Join(lines, "\n"), "Not printed: 2 events that had come by then.")
	require.Regexp(t, `(?m)^  0 +3 +0 +0 +\d+ +1%$`, strings.Join(lines, "\n"))

	r = start(t, "id", e.id, "--steal", "--utc", "-n", "1")
	e.Emit(0, 1, 24)
	require.Regexp(t, `(?m)^            UTC CPU   LEN  DATA\n\d\d:\d\d:\d\d\.\d{6}   0    28  0000`, r.Wait(t))

	r = start(t, "id", e.id, "--steal", "-q")
	e.Emit(0, 4, 24)
	require.Regexp(t, `^\n4 events and 0 lost`, r.Interrupt(t))

	// It ends by itself, too.
	require.Contains(t, start(t, "id", e.id, "--steal", "--timeout", "1ms").Wait(t), "\n0 events and 0 lost of ")
}

// What does not fit into the rings is told of, and all is accounted for.
func TestLosses(t *testing.T) {
	e := load(t)
	cpu := e.cpus[0]
	total := func() uint64 { attempted, _ := e.Counts(cpu); return attempted }
	refused := func() uint64 { _, failed := e.Counts(cpu); return failed }

	r := start(t, "id", e.id, "--steal", "--json", "--ring-size", "4096")
	for refused() == 0 {
		e.Emit(cpu, 512, 512)
	}
	n := total()
	events, s := parseJSON(t, r.Interrupt(t))
	require.Equal(t, n, s.Events+s.Lost)
	if kerneltest.AtLeast(t, 6, 0) {
		require.Equal(t, refused(), s.Lost)
	}
	lost := uint64(0)
	for _, o := range events {
		if o.Type == recordLost {
			require.Less(t, o.Lost.After, o.Timestamp)
			lost += o.Lost.Count
		}
	}
	require.Equal(t, s.Lost, lost)

	r = start(t, "id", e.id, "--steal", "--ring-size", "4096")
	for before := refused(); refused() == before; {
		e.Emit(cpu, 512, 512)
	}
	out := r.Interrupt(t)
	require.Regexp(t, `(?m)^ +\d+\.\d{9}   `+strconv.Itoa(cpu)+`  LOST  \d+ events?, within [\d.]+\S+ before this$`, out)
	require.Contains(t, out, "\nLOST: outputs found their ring full. A larger --ring-size holds more (it was 4KiB).\n")
}

// What programs shed is printed with its lane, and counted.
func TestShed(t *testing.T) {
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	of := clitest.MapID(t, c.MapFD()) + ",lanes=" + clitest.MapID(t, c.LanesFD()) + ":100:25"
	for format, want := range map[string][]string{
		"text":    {`\.\d{9}   0  SHED  \d+ events? of lane 1, within \S+ before this`, `SHED: programs left out \d+ events?, `},
		"compact": {`\.\d{9} 0 SHED \d+ LANE 1`, `# .*, \d+ shed`},
		"json":    {`"cpu":0,"timestamp":\d+,"shed":{"lane":1,"count":\d+,"after":\d+}`, `"shed":[1-9]`},
	} {
		r := start(t, "id", of, "--steal", "--ring-size", "4096", "-o", format)
		for c.OutputIn(1, 0, 1000) != syscall.ECANCELED {
		}
		out := r.Interrupt(t)
		for _, line := range want {
			require.Regexp(t, line, out)
		}
	}
}

// A map that is read is not taken over, unless told to. Its reader then receives nothing.
func TestSteal(t *testing.T) {
	e := load(t)
	present := start(t, "id", e.id, "--steal", "-q")
	e.Emit(0, 7, 24)
	// It holds still meanwhile. Else it may get its entries back: a reader sets them as rings fall silent.
	present.Signal(t, syscall.SIGSTOP)
	status := func() string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", present.PID))
		require.NoError(t, err)
		return string(b)
	}
	for !strings.Contains(status(), ") T ") {
	}

	for _, want := range []string{"seems to be read by ", "(pid " + strconv.Itoa(present.PID) + ")", "with --steal events come here"} {
		fails(t, want, "id", e.id)
	}

	thief := start(t, "id", e.id, "--steal", "--json")
	e.Emit(0, 5, 24)
	_, s := parseJSON(t, thief.Interrupt(t))
	require.EqualValues(t, 5, s.Events)
	require.Equal(t, len(e.cpus), s.Replaced)
	require.Zero(t, *s.Displaced)
	require.Contains(t, thief.Notes.String(), "taken over: ")
	require.Contains(t, thief.Notes.String(), "(pid "+strconv.Itoa(present.PID)+")")

	e.Emit(0, 1, 24)
	require.Equal(t, syscall.ENOENT, e.LastError(0))
	present.Signal(t, syscall.SIGCONT)
	require.Equal(t, 1, present.Status()) // it finds out
	require.Contains(t, present.Out.String(), "\n7 events and 0 lost")
	require.Contains(t, present.Out.String(), "\nDISPLACED: another reader has taken the map ")
	require.Contains(t, present.Notes.String(), "another reader has taken the map ")
}

func TestNoPrivilege(t *testing.T) {
	kerneltest.RequireRoot(t)
	for _, args := range [][]string{{"id", "1"}, {"name", "events"}, {"--process", "execsnoop"}} {
		cmd, stderr := clitest.Command(t, append([]string{"tail"}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		require.Error(t, cmd.Run())
		require.Contains(t, stderr.String(), "takes CAP_SYS_ADMIN: run as root")
	}
}

func TestNoReaderOfOutput(t *testing.T) {
	e := load(t)
	cmd, stderr := clitest.Command(t, "tail", "id", e.id, "--steal")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	r.Close()
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	require.NoError(t, cmd.Wait(), stderr.String())
	require.NotContains(t, stderr.String(), "broken pipe")
}
