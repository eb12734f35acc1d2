// Package cilium tests that ringfold reads maps that cilium/ebpf has loaded. It is a module of its
// own, to keep that dependency separate.
package cilium

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { leak.Main(m) }

// collection is the workload, loaded by cilium/ebpf.
type collection struct {
	*ebpf.Collection
	t    *testing.T
	cpus []int
}

func load(t *testing.T) collection {
	kerneltest.Require(t)
	require.NoError(t, rlimit.RemoveMemlock()) // before Linux 5.11
	spec, err := ebpf.LoadCollectionSpec("../workload/workload.bpf.o")
	require.NoError(t, err)
	for name := range spec.Programs {
		if name != "run" {
			delete(spec.Programs, name)
		}
	}
	spec.Maps["patterns"].MaxEntries = uint32(ebpf.MustPossibleCPU())
	c, err := ebpf.NewCollection(spec)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	cpus := kerneltest.OnlineCPUs(t)
	return collection{c, t, cpus}
}

// emit has each CPU output in turn, so many times.
func (c collection) emit(rounds int) {
	c.t.Helper()
	for range rounds {
		for _, cpu := range c.cpus {
			const onCPU = 1 // BPF_F_TEST_RUN_ON_CPU
			ret, err := c.Programs["run"].Run(&ebpf.RunOptions{Context: [5]uint64{1, kerneltest.MinSize}, Flags: onCPU, CPU: uint32(cpu)})
			require.NoError(c.t, err)
			require.Zero(c.t, int32(ret))
		}
	}
}

// inOrder is for events that come as emit has output them.
func (c collection) inOrder(next *int) func(perfbuf.Event) error {
	t := c.t
	return func(ev perfbuf.Event) error {
		require.Equal(t, perfbuf.KindSample, ev.Kind())
		p, err := kerneltest.Check(ev.Bytes())
		require.NoError(t, err)
		require.Equal(t, c.cpus[*next%len(c.cpus)], p.CPU)
		require.EqualValues(t, *next/len(c.cpus), p.Seq)
		require.Equal(t, p.CPU, ev.CPU())
		*next++
		return nil
	}
}

func TestOrdered(t *testing.T) {
	c := load(t)
	r, err := perfbuf.Open(c.Maps["events"].FD(), perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	c.emit(100)
	next, want := 0, 100*len(c.cpus)
	check := c.inOrder(&next)
	require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
		if err := check(ev); err != nil || next < want {
			return err
		}
		return perfbuf.ErrStop
	}))
	c.emit(10)
	require.NoError(t, s.Drain(t.Context(), check))
	require.Equal(t, want+10*len(c.cpus), next)
	require.NoError(t, r.Close())
	<-r.Done()
	require.EqualValues(t, next, r.Stats().Total().Samples)
}

// cilium/ebpf may close its own descriptor: the map's entries stay.
func TestMapClosed(t *testing.T) {
	c := load(t)
	r, err := perfbuf.Open(c.Maps["events"].FD(), perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	next := 0
	c.emit(10)
	require.NoError(t, s.Drain(t.Context(), c.inOrder(&next)))
	require.NoError(t, c.Maps["events"].Close())
	c.emit(10)
	require.NoError(t, s.Drain(t.Context(), c.inOrder(&next)))
	require.Equal(t, 20*len(c.cpus), next)

	// Nor does it matter when all of the collection goes while the reader waits.
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, c.inOrder(&next)) }()
	c.Close()
	done := errors.New("done")
	cancel(done)
	require.Equal(t, done, <-ended)
}

// maps is a Collection whose maps InitPerfBuf finds.
type maps struct{ *ebpf.Collection }

func (c maps) GetMap(name string) (file, error) {
	if m := c.Maps[name]; m != nil {
		return file(m.FD()), nil
	}
	return 0, fmt.Errorf("the collection has no map %q", name)
}

type file int

func (f file) FileDescriptor() int { return int(f) }

func TestInitPerfBuf(t *testing.T) {
	c := load(t)
	events, lost := make(chan []byte), make(chan uint64)
	_, err := perfchan.InitPerfBuf(maps{c.Collection}, "nothing", events, lost, 64)
	require.ErrorContains(t, err, `the collection has no map "nothing"`)
	buffer, err := perfchan.InitPerfBuf(maps{c.Collection}, "events", events, lost, 64)
	require.NoError(t, err)
	defer buffer.Close()
	require.NoError(t, c.Maps["events"].Close())
	c.emit(3)
	buffer.Poll(300)
	next := map[int]uint64{}
	for range 3 * len(c.cpus) {
		p, err := kerneltest.Check(<-events)
		require.NoError(t, err)
		require.Equal(t, next[p.CPU], p.Seq)
		next[p.CPU]++
	}
	buffer.Stop()
	_, open := <-lost
	require.False(t, open)
	require.NoError(t, buffer.Err())
}

// docs/migrating.md shows the adapter as it is here.
func TestDocs(t *testing.T) {
	own, err := os.ReadFile("cilium_test.go")
	require.NoError(t, err)
	docs, err := os.ReadFile("../../docs/migrating.md")
	require.NoError(t, err)
	_, adapter, found := strings.Cut(string(own), "// maps is ")
	require.True(t, found)
	adapter, _, found = strings.Cut(adapter, "\nfunc Test")
	require.True(t, found)
	require.Contains(t, string(docs), "```go\n// maps is "+adapter)
}

// A later cilium/ebpf reader keeps the map when ringfold's closes, which reports the loss.
func TestOlderThanCilium(t *testing.T) {
	c := load(t)
	old, err := perfbuf.Open(c.Maps["events"].FD(), perfbuf.Options{})
	require.NoError(t, err)
	defer old.Close()
	s, err := old.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	r, err := perf.NewReader(c.Maps["events"], os.Getpagesize())
	require.NoError(t, err)
	defer r.Close()
	c.emit(1)
	require.ErrorIs(t, s.Run(t.Context(), func(perfbuf.Event) error { return nil }), perfbuf.ErrDisplaced)
	require.NoError(t, old.Close())
	c.emit(1)
	for range 2 * len(c.cpus) {
		_, err := r.Read()
		require.NoError(t, err)
	}
	require.Zero(t, old.Stats().Total().Dropped)
}
