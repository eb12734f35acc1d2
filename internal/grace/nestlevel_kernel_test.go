//go:build linux && cgo

package grace

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// requireNestLevels opens the provider, or skips the test.
func requireNestLevels(t *testing.T) *nestLevels {
	kerneltest.Require(t)
	p, err := openNestLevels()
	for errors.Is(err, errNotShown) { // machines are slow
		p, err = openNestLevels()
	}
	if err != nil {
		skipNestLevels(t, err)
	}
	t.Cleanup(func() { p.Close() })
	return p.(*nestLevels)
}

// skipNestLevels skips the test if the kernel cannot support the look, for the reason in the error.
// Otherwise the test fails.
func skipNestLevels(t *testing.T, err error) {
	_, missing := bpf.KernelVariables(nestLevelVariables[:]...)
	symbols, failed := os.ReadFile("/proc/kallsyms")
	require.NoError(t, failed)
	_, failed = twoCPUs()
	switch {
	case runtime.GOARCH != "amd64":
		require.ErrorContains(t, err, runtime.GOARCH)
	case missing != nil:
		require.ErrorContains(t, err, "CONFIG_DEBUG_INFO_BTF")
		require.ErrorContains(t, err, "no variable bpf_trace_nest_level")
	case !strings.Contains(string(symbols), " "+nestLevelVariables[0]+"\n"):
		require.ErrorContains(t, err, "CONFIG_KALLSYMS_ALL")
		require.ErrorContains(t, err, nestLevelVariables[0])
	case failed != nil:
		require.ErrorContains(t, err, "two CPUs")
	default:
		require.NoError(t, err)
	}
	t.Skip(err)
}

func TestKernelNestLevels(t *testing.T) {
	begin := time.Now()
	n := requireNestLevels(t)
	first := time.Since(begin)
	begin = time.Now()
	again, err := openNestLevels()
	require.NoError(t, err)
	t.Logf("opened in %v, and again in %v", first, time.Since(begin))
	require.NoError(t, again.Close())
	require.ErrorIs(t, again.Wait(), unix.EBADF)
	require.Equal(t, nestLevelsName, n.Name())

	const rounds = 500
	var took []time.Duration
	for calls := rounds; calls >= rounds/10; { // other causes interrupt CPUs too, but not always
		before := functionCalls(t)
		for range rounds {
			begin := time.Now()
			require.NoError(t, n.Wait())
			took = append(took, time.Since(begin))
		}
		calls = functionCalls(t) - before
		t.Logf("%d CPUs: p50 %v, p99 %v, function call interrupts %d", provenLevels.facts.cpus, quantile.Of(took, 0.5), quantile.Of(took, 0.99), calls)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if n.Wait() != nil {
			t.Error("fails")
		}
	}))
}

// functionCalls counts the function call interrupts so far.
func functionCalls(t *testing.T) int {
	text, err := os.ReadFile("/proc/interrupts")
	require.NoError(t, err)
	sum := 0
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "CAL:" {
			for _, f := range fields[1:] {
				n, _ := strconv.Atoi(f)
				sum += n
			}
			return sum
		}
	}
	t.Skip("no function call interrupts in /proc/interrupts")
	return 0
}

// The proof fails if the variables do not reflect outputs.
func TestKernelNestLevelsProof(t *testing.T) {
	n := requireNestLevels(t)
	facts := provenLevels.facts
	events, err := bpf.MapCreate(bpf.MapTypePerfEventArray, "test", 4, 4, 1, 0)
	require.NoError(t, err)
	defer unix.Close(events)
	cpus, err := twoCPUs()
	require.NoError(t, err)
	prove := func(prog, cpu, variable int) error {
		progType := []int{bpf.ProgTypeRawTracepoint, bpf.ProgTypeSocketFilter}[variable]
		return proveLevel(prog, events, progType, facts.cpus, cpu, variable)
	}
	other, err := loadLook([2]int32{facts.variables[1], facts.variables[0]}, facts.cpus)
	require.NoError(t, err)
	defer unix.Close(other)
	for variable := range nestLevelVariables {
		for _, cpu := range cpus {
			err := prove(n.prog, cpu, variable)
			for errors.Is(err, errNotShown) {
				err = prove(n.prog, cpu, variable)
			}
			require.NoError(t, err)
		}
		err := prove(other, cpus[1], variable)
		for err == nil { // other outputs raise the variable too
			err = prove(other, cpus[1], variable)
		}
		require.ErrorIs(t, err, errNotShown)
	}
}

// outputs makes outputs of both kinds on each CPU repeatedly: few, for many rounds, and large, to
// take long.
func outputs(t *testing.T, cpus []int) *machine {
	m := newMachine(t, cpus)
	m.stop()
	prog, err := loadOutputs(bpf.ProgTypeSocketFilter, m.e.MapFD())
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(prog) })
	packet := func(int) error { _, err := bpf.ProgTestRun(prog, make([]byte, packetLength), nil, -1); return err }
	large := func(cpu int) error { return m.e.TryEmit(cpu, 32, kerneltest.MaxSize) }
	for _, run := range []func(cpu int) error{packet, large} {
		onEach(t, cpus, func(cpu int) error {
			defer time.Sleep(100 * time.Microsecond)
			return run(cpu)
		})
	}
	return m
}

// After the barrier, no path publishes an event at or below the watermark. Without any one of the
// barrier's conditions, some do.
func TestKernelNestLevelsLate(t *testing.T) {
	n := requireNestLevels(t)
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	enough := 2000
	if testing.Short() { // an emulated machine takes seconds for some
		enough = 300
	}
	none := waitFunc(func() error { return nil })
	t.Run("sound", func(t *testing.T) {
		var fallbacks atomic.Int32
		period := n.fallback
		n.fallback = waitFunc(func() error { fallbacks.Add(1); return period.Wait() })
		defer func() { n.fallback = period }()
		m := outputs(t, cpus)
		require.Zero(t, late(t, m, n, BarrierOptions{}, monotonic, func(rounds, _, _ int) bool { return rounds >= enough }))
		t.Logf("%d grace periods", fallbacks.Load())
	})
	// The test can fail. It uses hardly any guard, so that outputs are late even without
	// interruption.
	unsound := func(name string, p Provider, clock func() uint64) {
		t.Run(name, func(t *testing.T) {
			late(t, outputs(t, cpus), p, BarrierOptions{Guard: 1}, clock, func(_, _, late int) bool { return late >= 3 })
		})
	}
	unsound("no look", none, monotonic)
	unsound("time after the look", none, func() uint64 {
		if err := n.Wait(); err != nil {
			t.Error(err)
		}
		return monotonic()
	})
	facts := provenLevels.facts
	for _, variable := range facts.variables {
		prog, err := loadLook([2]int32{variable, variable}, facts.cpus)
		require.NoError(t, err)
		one := &nestLevels{fallback: n.fallback, look: func(from int) (int, error) {
			level, err := look(prog, from, facts.cpus)
			return level.cpu(), err
		}}
		unsound("one level only", waitFunc(one.Wait), monotonic)
		unix.Close(prog)
	}
}
