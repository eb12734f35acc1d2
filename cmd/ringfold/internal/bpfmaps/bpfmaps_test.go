package bpfmaps

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// childEnv says what a child process of the tests is to be.
const childEnv = "PERFMAPS_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		os.Exit(child(what))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	leak.Main(m)
}

// child holds the map that it gets as descriptor 3, or reads it, or opens what is pinned, until its input ends.
func child(what string) int {
	switch what {
	case "reader":
		r, err := perfbuf.Open(3, perfbuf.Options{})
		if err != nil {
			return 1
		}
		defer r.Close()
	case "list":
		_, err := List("")
		os.Stdout.WriteString(err.Error())
		return 0
	}
	os.Stdout.WriteString("ready\n")
	io.ReadAll(os.Stdin)
	return 0
}

// start runs a child with a map, and returns its pid when it is ready.
func start(t *testing.T, what string, fd int) (pid int) {
	t.Helper()
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	file := os.NewFile(uintptr(dup), "map")
	defer file.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.ExtraFiles = []*os.File{file}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		require.NoError(t, cmd.Wait())
	})
	ready := make([]byte, 6)
	_, err = io.ReadFull(out, ready)
	require.NoError(t, err)
	return cmd.Process.Pid
}

// id is that of a map.
func id(t *testing.T, fd int) uint32 {
	id, err := ParseID(clitest.MapID(t, fd))
	require.NoError(t, err)
	return id
}

// listed is what List says of a map once only this process holds it: other packages' tests list maps
// too, and hold each of them for a moment.
func listed(t *testing.T, id uint32) Map {
	t.Helper()
	for {
		all, err := List("")
		require.NoError(t, err)
		at := slices.IndexFunc(all, func(m Map) bool { return m.ID == id })
		require.GreaterOrEqual(t, at, 0, "the map %d is not among %v", id, all)
		if len(all[at].Others()) == 0 {
			return all[at]
		}
	}
}

// open opens a map that so many others hold, if nobody else does for a moment.
func open(s Selector, steal bool, others int) (*Target, error) {
	for {
		targets, err := Open([]Selector{s}, "", steal)
		var busy *BusyError
		switch {
		case errors.As(err, &busy):
			if len(busy.Others()) == others {
				return nil, err
			}
		case err != nil:
			return nil, err
		case len(targets[0].Others()) == others:
			return targets[0], nil
		default:
			targets[0].Close()
		}
	}
}

func TestList(t *testing.T) {
	e := kerneltest.Load(t)
	events := id(t, e.MapFD())
	m := listed(t, events)
	require.Equal(t, "events", m.Name)
	require.NotZero(t, m.MaxEntries)
	var names []string
	for _, p := range m.Programs {
		require.NotZero(t, p.ID)
		require.Equal(t, "RawTracepoint", p.Type)
		names = append(names, p.Name)
	}
	require.ElementsMatch(t, []string{"bare", "run"}, names)
	require.Len(t, m.Processes, 1)
	require.Equal(t, os.Getpid(), m.Processes[0].PID)
	require.Zero(t, m.Processes[0].Rings)
	require.Empty(t, m.Others())

	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, len(r.Rings()), listed(t, events).Processes[0].Rings)

	// Maps of other types are not listed.
	array := id(t, e.ArrayFD())
	all, err := List("")
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(all, func(m Map) bool { return m.ID == array }))
	_, err = Open([]Selector{{ID: array}}, "", false)
	require.ErrorContains(t, err, "is a map of the type Array, not a perf event array, nor a BPF ring buffer")
}

// BPF ring buffers are listed, too, and the maps that they are in. The mappings of a process show that it
// reads one.
func TestRingBufs(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	e.SetShard(1, kerneltest.NewRingBuf(t, 4096))
	shared, shards, empty := id(t, e.MapFD()), id(t, e.ShardsFD()), id(t, e.GroupsFD())
	require.Equal(t, "ringbuf", listed(t, shared).Type)
	require.True(t, listed(t, shared).RingBuf())
	require.Equal(t, "array_of_maps", listed(t, shards).Type)
	all, err := List("")
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(all, func(m Map) bool { return m.ID == empty }))

	eight := 8
	targets, err := Open([]Selector{{ID: shared, Fields: Fields{LanesID: id(t, e.LanesFD())}}, {ID: shards, Fields: Fields{TimeAt: &eight}}}, "", true)
	require.NoError(t, err)
	require.False(t, targets[0].Timed())
	require.True(t, targets[1].Timed())
	mapped := listed(t, shared).Processes[0].Rings
	r, err := targets[0].Reader(perfbuf.Options{})
	require.NoError(t, err)
	e.Emit(0, kerneltest.RingEmit{Count: 512, Size: 4096})
	require.NotZero(t, r.Stats().Outputs.Total().Full)
	require.Greater(t, listed(t, shared).Processes[0].Rings, mapped)
	require.NoError(t, r.Close())
	<-r.Done()
	for _, target := range targets {
		require.NoError(t, target.Close())
	}

	start(t, "holder", e.MapFD())
	_, err = open(Selector{ID: shared}, false, 1)
	require.ErrorContains(t, err, "hands each event to one reader only")
}

func TestPins(t *testing.T) {
	kerneltest.RequireRoot(t)
	e := kerneltest.Load(t)
	dir := t.TempDir() + "/a b"
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, unix.Mount("bpf", dir, "bpf", 0, ""))
	// Others' tests may be looking for pins in it.
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	require.NoError(t, os.Mkdir(dir+"/sub", 0o700))
	path := filepath.Join(dir, "sub", "ev")
	events, err := e.Module().GetMap("events")
	require.NoError(t, err)
	require.NoError(t, events.Pin(path))
	prog, err := e.Module().GetProgram("run")
	require.NoError(t, err)
	require.NoError(t, prog.Pin(filepath.Join(dir, "prog")))
	require.Equal(t, []string{path}, listed(t, id(t, e.MapFD())).Pins)

	targets, err := Open([]Selector{{Pin: path}}, "", true)
	require.NoError(t, err)
	require.Equal(t, id(t, e.MapFD()), targets[0].ID)
	require.Equal(t, []string{path}, targets[0].Pins)
	require.NoError(t, targets[0].Close())
	for name, want := range map[string]string{"prog": "is not a Map", "none": "nothing is pinned at"} {
		_, err = Open([]Selector{{Pin: filepath.Join(dir, name)}}, "", true)
		require.ErrorContains(t, err, want)
	}
}

// A map that another process holds, or reads, is not taken over without being told to.
func TestBusy(t *testing.T) {
	e := kerneltest.Load(t)
	events := Selector{ID: id(t, e.MapFD())}
	target, err := open(events, false, 0)
	if unseen := listed(t, events.ID).Unseen; unseen != "" {
		require.ErrorContains(t, err, "may have a reader: "+unseen)
	} else {
		require.NoError(t, err)
		require.NoError(t, target.Close())
	}

	holder := start(t, "holder", e.MapFD())
	_, err = open(events, false, 1)
	var busy *BusyError
	require.ErrorAs(t, err, &busy)
	require.Equal(t, holder, busy.Others()[0].PID)
	require.Empty(t, busy.Readers())
	require.ErrorContains(t, err, "may have a reader: ")
	require.ErrorContains(t, err, "(pid "+strconv.Itoa(holder)+") holds it, though without a ring")
	require.ErrorContains(t, err, "with --steal")

	reader := start(t, "reader", e.MapFD())
	_, err = open(events, false, 2)
	require.ErrorAs(t, err, &busy)
	require.Len(t, busy.Readers(), 1)
	require.Equal(t, reader, busy.Readers()[0].PID)
	require.ErrorContains(t, err, "seems to be read by ")

	target, err = open(events, true, 2)
	require.NoError(t, err)
	require.Len(t, target.Processes, 3) // and this one
	require.NoError(t, target.Close())

	busy = &BusyError{Map{ID: 3, Name: "events", Unseen: "there is no /proc here"}}
	require.ErrorContains(t, busy, "the map events (id 3) may have a reader: there is no /proc here. A CPU's entry")
}

// A process that held the map a moment ago, as to list it, is no reader.
func TestHeldForAMoment(t *testing.T) {
	events := id(t, kerneltest.Load(t).MapFD())
	target := &Target{Map: Map{ID: events, Processes: Processes{{PID: 1}}}}
	require.NoError(t, target.free())
	require.Empty(t, target.Processes)
}

func TestName(t *testing.T) {
	kerneltest.Require(t)
	name := "pm" + strconv.Itoa(os.Getpid())
	spec := &ebpf.MapSpec{Name: name, Type: ebpf.PerfEventArray, MaxEntries: 1}
	m, err := ebpf.NewMap(spec)
	require.NoError(t, err)
	defer m.Close()
	targets, err := Open([]Selector{{Name: name}}, "", true)
	require.NoError(t, err)
	require.Equal(t, name, targets[0].Name)
	require.Equal(t, m.MaxEntries(), targets[0].MaxEntries)
	require.Empty(t, targets[0].Programs)
	require.NoError(t, targets[0].Close())

	second, err := ebpf.NewMap(spec)
	require.NoError(t, err)
	defer second.Close()
	own := "(pid " + strconv.Itoa(os.Getpid()) + ")"
	for err = errors.New(""); strings.Count(err.Error(), own) < 2; { // another holder, for a moment, may be named instead
		_, err = Open([]Selector{{Name: name}}, "", false)
		require.Error(t, err)
	}
	require.ErrorContains(t, err, `several maps are named "`+name+`": choose one, as in id `)
	_, err = Open([]Selector{{Name: "none" + name}}, "", false)
	require.ErrorContains(t, err, "no perf event array or BPF ring buffer is named")
	require.ErrorContains(t, err, targets[0].Map.String())
	_, err = Open([]Selector{{ID: 1<<32 - 2}}, "", false)
	require.ErrorContains(t, err, "there is no map with the id 4294967294")
}

func TestChoose(t *testing.T) {
	_, err := choose(nil, "")
	require.ErrorContains(t, err, "there is no perf event array or BPF ring buffer on this system: start the program")
	one := []Map{{ID: 5, Name: "long_name_of_ev"}}
	for _, name := range []string{"", "long_name_of_ev", "long_name_of_events"} {
		m, err := choose(one, name)
		require.NoError(t, err)
		require.EqualValues(t, 5, m.ID)
	}
	two := append(one, Map{ID: 6, Programs: []Program{{Name: "p"}}})
	m, err := choose(two, "")
	require.NoError(t, err)
	require.EqualValues(t, 6, m.ID) // nothing outputs to the other
	_, err = choose(append(two, Map{ID: 7, Programs: []Program{{Name: "q"}}}), "")
	require.ErrorContains(t, err, "choose, as in id 6: (no name) (id 6) of program p, (no name) (id 7) of program q")
	_, err = choose([]Map{{ID: 8}, {ID: 9}}, "")
	require.ErrorContains(t, err, "there are several perf event arrays or BPF ring buffers")
}

func TestParse(t *testing.T) {
	zero, eight := 0, 8
	for text, want := range map[string]Fields{
		"n": {}, "n,time=0,cpu=8,stamped": {TimeAt: &zero, CPUAt: &eight, Stamped: true}, "n,type=event,lanes=7": {Type: "event", LanesID: 7}, "n,lanes=7:40:100": {LanesID: 7, Lanes: []int{40, 100}},
	} {
		which, fields, err := ParseFields(text)
		require.NoError(t, err)
		require.Equal(t, "n", which)
		require.Equal(t, want, fields)
	}
	for value, want := range map[string]string{
		"n,lanes=0": `"lanes=0": an id is a number from 1 on`, "n,lanes=7:0": `a lane's share of "0": use 1 to 100`,
		"":          "which map is missing",
		",time=8":   "which map is missing",
		"n,times=8": `"times=8": behind a map come time=OFFSET`,
		"n,type=":   `"type=": behind`,
		"n,time=x":  `"time=x": an offset is a number of bytes from 0 on`,
		"n,cpu=-1":  `"cpu=-1": an offset`,
		"n,stamped": "give time=OFFSET",
	} {
		_, _, err := ParseFields(value)
		require.ErrorContains(t, err, want)
	}
	for _, id := range []string{"0", "-1", "x", "4294967296"} {
		_, err := ParseID(id)
		require.ErrorContains(t, err, "a number from 1 on")
	}
}

func TestNoPrivilege(t *testing.T) {
	kerneltest.RequireRoot(t)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	for want, attr := range map[string]syscall.SysProcAttr{
		"uid 65534 may not look for other programs' maps, which takes CAP_SYS_ADMIN: run as root": {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
		"uid 0 is in a user namespace": {Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids},
	} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), childEnv+"=list")
		cmd.SysProcAttr = &attr
		out, err := cmd.Output()
		if cmd.ProcessState == nil {
			t.Skip(err) // no user namespaces
		}
		require.NoError(t, err)
		require.Contains(t, string(out), want)
	}
}

func TestHeldBy(t *testing.T) {
	all := []Map{{ID: 1}, {ID: 2, Processes: []Process{{PID: 7, Comm: "a"}, {PID: 8, Comm: "b"}}}, {ID: 3, Processes: []Process{{PID: 9, Comm: "b"}}}}
	for process, want := range map[string][]Map{"b": all[1:], "9": all[2:], "7": all[1:2]} {
		found, err := heldBy(all, process)
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
	_, err := heldBy(all, "c")
	require.ErrorContains(t, err, `no process "c" holds`)
}
