package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// openEnv has the test binary open a source, and print why it cannot.
const openEnv = "FLEET_TEST_OPEN"

func TestMain(m *testing.M) {
	if os.Getenv(openEnv) != "" {
		s := new(Real)
		_, err := s.Open()
		fmt.Println(err)
		s.Close()
		return
	}
	leak.Main(m)
}

// follow reads a source until more returns false, and then the rest.
func follow(t *testing.T, s Source, more func(time uint64, e *wire.Event) bool) {
	t.Helper()
	defer s.Close()
	r, err := s.Open()
	require.NoError(t, err)
	defer func() { r.Close(); <-r.Done() }()
	stream, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	defer stream.Close()
	require.NoError(t, s.Attach())
	last := uint64(0)
	event := func(ev perfbuf.Event) error {
		if ev.Kind() != perfbuf.KindSample {
			return nil
		}
		e := new(wire.Event)
		if err := s.Decode(ev, e); err != nil {
			if errors.Is(err, ErrSkip) {
				return nil
			}
			return err
		}
		require.LessOrEqual(t, last, ev.Time())
		require.LessOrEqual(t, ev.Time(), s.Now())
		last = ev.Time()
		if !more(last, e) {
			return perfbuf.ErrStop
		}
		return nil
	}
	require.NoError(t, stream.Run(context.Background(), event))
	require.NoError(t, s.Detach())
	require.NoError(t, stream.Drain(context.Background(), event))
}

func TestSimulated(t *testing.T) {
	const n = 2000 // for which a ring has room, whoever is slow
	// What a process does comes from the seed: the same each time, and other things from another one.
	lives := func(seed uint64) map[uint32][]string {
		s := NewSimulated(SimulatedOptions{Rate: 20_000, Events: n, CPUs: 3, Seed: seed, RingBytes: 1 << 20})
		lives := map[uint32][]string{}
		read := 0
		follow(t, s, func(_ uint64, e *wire.Event) bool {
			lives[e.Pid] = append(lives[e.Pid], fmt.Sprint(e.Kind, e.Cpu, e.OtherPid, e.Code, e.Comm, e.Detail))
			read++
			return read < n
		})
		written, lost := s.Counts()
		require.Equal(t, uint64(n), written)
		require.Zero(t, lost)
		require.Equal(t, n, read)
		return lives
	}
	same := func(a, b map[uint32][]string) bool {
		for pid := range a {
			for i := range min(len(a[pid]), len(b[pid])) { // how far each family has come depends on the time
				if a[pid][i] != b[pid][i] {
					return false
				}
			}
		}
		return true
	}
	first := lives(1)
	require.True(t, same(first, lives(1)))
	require.False(t, same(first, lives(2)))
	kinds := map[string]bool{}
	for _, life := range first {
		for _, e := range life {
			kinds[e[:4]] = true
		}
	}
	require.Equal(t, map[string]bool{"FORK": true, "EXEC": true, "EXIT": true}, kinds)
}

// A program that this test runs: forked, executed, ended.
func TestReal(t *testing.T) {
	kerneltest.Require(t)
	file, err := exec.LookPath("false")
	require.NoError(t, err)
	var self = uint32(os.Getpid())
	done := make(chan bool)
	over := make(chan bool)
	go func() {
		defer close(over)
		for {
			select {
			case <-done:
				return
			default:
				_ = exec.Command(file).Run()
			}
		}
	}()
	child, executed := uint32(0), uint32(0)
	stopped := false
	follow(t, new(Real), func(_ uint64, e *wire.Event) bool {
		switch {
		case stopped:
		case e.Kind == wire.Event_FORK && e.Pid == self && e.OtherPid != self:
			child = e.OtherPid
		case e.Kind == wire.Event_EXEC && e.Detail == file && e.Pid == child:
			require.Equal(t, "false", e.Comm)
			executed = child
		case e.Kind == wire.Event_EXIT && e.Pid == executed && executed != 0 && e.Tid == e.Pid:
			require.Equal(t, int32(1<<8), e.Code)
			stopped = true
			close(done)
			return false
		}
		return true
	})
	<-over
}

func TestNoPrivilege(t *testing.T) {
	kerneltest.RequireRoot(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), openEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "uid 65534 lacks CAP_BPF and CAP_PERFMON")
	require.Contains(t, string(out), "as root")
}

// Names may be any bytes, a message's strings may not.
func TestDecodeNames(t *testing.T) {
	kernel := perfbuftest.New(perfbuftest.Options{})
	reader, err := kernel.Open(perfbuf.Options{})
	require.NoError(t, err)
	defer reader.Close()
	sent := lifecycle.Event{Kind: lifecycle.Exec}
	copy(sent.CommBytes[:], "a\xff\xfeb\x00c")
	copy(sent.FileBytes[:], "é"[:1])
	require.NoError(t, kernel.Output(0, lifecycle.Encode(sent)))
	require.NoError(t, reader.ForEach(func(ev perfbuf.Event) error {
		var e wire.Event
		require.NoError(t, decode(ev, &e))
		require.Equal(t, "a\ufffdb", e.Comm)
		_, err := proto.Marshal(&e)
		require.NoError(t, err)
		return nil
	}))
}
