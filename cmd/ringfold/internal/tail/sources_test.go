package tail

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// ringOf is how to choose a ring buffer of kerneltest.
func ringOf(t *testing.T, fd int, more string) string {
	return fmt.Sprintf("%s,time=%d,cpu=%d%s", clitest.MapID(t, fd), kerneltest.RingTimeAt, kerneltest.RingCPUAt, more)
}

// A perf event array, a ring buffer and ring buffers in a map come in one order, each with its name.
func TestSeveralMaps(t *testing.T) {
	e, rings := load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	for _, cpu := range e.cpus {
		rings.SetShard(cpu, kerneltest.NewRingBuf(t, 1<<16))
	}
	args := []string{"--steal", "id", e.id, "id", ringOf(t, rings.MapFD(), ",type=hold_args"), "id", ringOf(t, rings.ShardsFD(), "")}
	for _, asJSON := range []bool{true, false} {
		if asJSON {
			args = append([]string{"--json"}, args...)
		} else {
			args = args[1:]
		}
		p := start(t, args...)
		for range 10 {
			for _, cpu := range e.cpus {
				e.Emit(cpu, 1, 40)
				rings.Emit(cpu, kerneltest.RingEmit{Count: 1, Size: 40})
				rings.Emit(cpu, kerneltest.RingEmit{Count: 1, Size: 40, To: "shard"})
			}
		}
		out := p.Interrupt(t)
		if !asJSON {
			require.Contains(t, out, "TIME MAP    CPU   LEN  DATA\n")
			require.Regexp(t, `\n +\d+\.\d{9} events   \d    44  `, out)
			require.Regexp(t, `\n +\d+\.\d{9} shared   \d    40  \w+=`, out)
			require.Regexp(t, `\n +\d+\.\d{9} shards   \d    40  `, out)
			require.Contains(t, out, fmt.Sprintf("\n%d events and 0 lost of events (id %s), shared (id ", 30*len(e.cpus), e.id))
			continue
		}
		all, end := parseJSON(t, out)
		require.Len(t, end.Maps, 3)
		require.Equal(t, e.id, strconv.Itoa(int(end.Maps[0].ID)))
		from, before := map[string]int{}, uint64(0)
		for i, ev := range all {
			require.GreaterOrEqual(t, ev.Timestamp, before)
			before = ev.Timestamp
			require.Equal(t, e.cpus[i/3%len(e.cpus)], ev.CPU)
			require.Equal(t, []string{"events", "shared", "shards"}[i%3], ev.Map)
			require.Equal(t, ev.Map == "shared", ev.Fields != nil)
			from[ev.Map]++
		}
		n := 10 * len(e.cpus)
		require.Equal(t, map[string]int{"events": n, "shared": n, "shards": n}, from)
	}
}

// A ring buffer without times is read as it comes, and alone.
func TestRingBufWithoutTimes(t *testing.T) {
	e, rings := load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	id := clitest.MapID(t, rings.MapFD())
	p := start(t, "--steal", "id", id)
	rings.Emit(0, kerneltest.RingEmit{Count: 3, Size: 32})
	out := p.Interrupt(t)
	require.Regexp(t, `\n +-   -    32  `, out)
	require.Contains(t, out, "\n3 events and 0 lost of shared (id "+id+")")
	require.Contains(t, out, ", as they lay in the ring buffer.\n")

	for want, args := range map[string][]string{
		"has no times, by which events are ordered: say where in payloads they are, as in name shared,time=0, or read it alone": {"id", e.id, "id", id},
		"or read it alone without --mode and --slack":                            {"id", id, "--mode", "exact"},
		"has no times: say where in payloads they are, as in name shared,time=0": {"id", id, "--filter", "size > 1 && time > 1s"},
		"has the CPU, as in name shared,cpu=8":                                   {"id", id, "--filter", "cpu == 0"},
		"is chosen twice":                                                        {"id", id, "id", id},
		"is a perf event array: stamped and cpu= are for ring buffers":           {"id", e.id + ",cpu=8"},
		"have one more than a second in the future":                              {"id", id + ",time=32"},
		" samples are too short for a time":                                      {"id", id + ",time=64"},
	} {
		rings.Emit(0, kerneltest.RingEmit{Count: 20, Size: 64})
		status, _, notes := clitest.Run(t, Command, append([]string{"--steal"}, args...)...)
		require.NotZero(t, status)
		require.Contains(t, notes, want)
	}
}

// Events that have no time where it is said to be are shown and counted, and their order is not called proven.
func TestUntimed(t *testing.T) {
	e, rings := load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	for _, c := range []struct {
		which, want string
		emit        func()
	}{
		{e.id + ",time=64", "5 events have no time at time=64, as they are shorter, or one of another clock: the kernel's time was used", func() { e.Emit(0, 5, 40) }},
		{clitest.MapID(t, rings.MapFD()) + ",time=64", ": that of the event before was used", func() {
			rings.Emit(0, kerneltest.RingEmit{Count: 5, Size: 32})
		}},
	} {
		for _, command := range []string{"--json", "-o=text"} {
			r := start(t, "id", c.which, "--steal", command, "-n", "5")
			c.emit()
			require.Equal(t, 1, r.Status())
			require.Contains(t, r.Notes.String(), c.want)
			require.Contains(t, r.Notes.String(), "so their order is not proven\n")
			if command == "--json" {
				events, s := parseJSON(t, r.Out.String())
				require.Len(t, events, 5)
				require.EqualValues(t, 5, s.Untimed)
			} else {
				require.Contains(t, r.Out.String(), "\nUNTIMED: 5 events had no time where time= says")
			}
		}
	}
}

// When the last program that used a map is gone, that is said, and a new one's events come.
func TestProgramsGone(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpec("../source/decode.bpf.o")
	require.NoError(t, err)
	load := func(shared map[string]*ebpf.Map) *ebpf.Collection {
		c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	unload := func(c *ebpf.Collection) {
		for _, p := range c.Programs {
			require.NoError(t, p.Close())
		}
	}
	kerneltest.Require(t)
	first := load(nil)
	r := start(t, "id", clitest.MapID(t, first.Maps["decode_events"].FD()), "--steal", "-q")
	unload(first)
	r.Notes.Wait(t, `the last program that used the map decode_events \(id `)
	second := load(map[string]*ebpf.Map{"decode_events": first.Maps["decode_events"]})
	ret, err := second.Programs["output_sample"].Run(&ebpf.RunOptions{Context: [2]uint64{100, 0}})
	require.NoError(t, err)
	require.Zero(t, int32(ret))
	require.Contains(t, r.Interrupt(t), "\n1 event and 0 lost of decode_events")
	require.Equal(t, 1, strings.Count(r.Notes.String(), "the last program"), "no more is said")
}
