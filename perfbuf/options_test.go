package perfbuf

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// gib is no constant, as some multiples do not fit into a 32-bit int: the tests compile there, too.
var gib = 1 << 30

func TestEffectiveOptions(t *testing.T) {
	page := os.Getpagesize()
	bell := Wakeup{PollInterval: 5 * time.Millisecond}
	type o = Options
	for name, c := range map[string]struct {
		cpus int
		in   Options
		want Options
	}{
		"defaults":              {4, o{}, o{RingBytes: 256 << 10, Wakeup: bell}},
		"one byte is a page":    {2, o{RingBytes: 1}, o{RingBytes: page, Wakeup: bell}},
		"a page":                {1, o{RingBytes: page}, o{RingBytes: page, Wakeup: bell}},
		"up to a power of two":  {1, o{RingBytes: page + 1}, o{RingBytes: 2 * page, Wakeup: bell}},
		"three pages":           {3, o{RingBytes: 3 * page}, o{RingBytes: 4 * page, Wakeup: bell}},
		"the largest":           {1, o{RingBytes: 1 << 30}, o{RingBytes: 1 << 30, Wakeup: bell}},
		"to the largest":        {1, o{RingBytes: 1<<30 - 1}, o{RingBytes: 1 << 30, Wakeup: bell}},
		"budget, rounded down":  {3, o{TotalBytes: 4 << 20}, o{RingBytes: 1 << 20, Wakeup: bell}},
		"budget of a page each": {5, o{TotalBytes: 5 * page}, o{RingBytes: page, Wakeup: bell}},
		"budget of nearly two":  {1, o{TotalBytes: 2*page - 1}, o{RingBytes: page, Wakeup: bell}},
		"the largest budget":    {2, o{TotalBytes: 2 * gib}, o{RingBytes: 1 << 30, Wakeup: bell}},
		"no time, CPUs":         {1, o{NoTime: true, CPUs: []int{3}}, o{NoTime: true, CPUs: []int{3}, RingBytes: 256 << 10, Wakeup: bell}},
		"times of another clock than the kernel's": {1, o{Time: PayloadBootTime(8)},
			o{Time: PayloadBootTime(8), NoTime: true, RingBytes: 256 << 10, Wakeup: bell}},
		"each event, no poll interval": {1, o{Wakeup: Wakeup{Events: 1, PollInterval: time.Hour}},
			o{RingBytes: 256 << 10, Wakeup: Wakeup{Events: 1}}},
		"each event, no matter how short": {1, o{Wakeup: Wakeup{Events: 1, PollInterval: 1}},
			o{RingBytes: 256 << 10, Wakeup: Wakeup{Events: 1}}},
		"the shortest poll interval": {1, o{Wakeup: Wakeup{PollInterval: 100 * time.Microsecond}},
			o{RingBytes: 256 << 10, Wakeup: Wakeup{PollInterval: 100 * time.Microsecond}}},
		"the doorbell, with a poll interval": {1, o{Wakeup: Wakeup{PollInterval: time.Hour}},
			o{RingBytes: 256 << 10, Wakeup: Wakeup{PollInterval: time.Hour}}},
		"every 2nd event": {1, o{Wakeup: Wakeup{Events: 2}},
			o{RingBytes: 256 << 10, Wakeup: Wakeup{Events: 2, PollInterval: 10 * time.Millisecond}}},
		"bytes and poll interval": {1, o{Wakeup: Wakeup{Bytes: 4096, PollInterval: time.Second}},
			o{RingBytes: 256 << 10, Wakeup: Wakeup{Bytes: 4096, PollInterval: time.Second}}},
		"half of the ring": {1, o{RingBytes: 1 << 20, Wakeup: Wakeup{Bytes: 1 << 19}},
			o{RingBytes: 1 << 20, Wakeup: Wakeup{Bytes: 1 << 19, PollInterval: 10 * time.Millisecond}}},
		"many events": {1, o{Wakeup: Wakeup{Events: 1<<31 - 1}},
			o{RingBytes: 256 << 10, Wakeup: Wakeup{Events: 1<<31 - 1, PollInterval: 10 * time.Millisecond}}},
	} {
		got, err := c.in.effective(c.cpus)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		again, err := got.effective(c.cpus)
		require.NoError(t, err, name)
		require.Equal(t, got, again, "%s: what came out can be used again", name)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for want, o := range map[string]Options{
		"RingBytes is -1":                              {RingBytes: -1},
		"TotalBytes is -4096":                          {TotalBytes: -4096},
		"both RingBytes and TotalBytes":                {RingBytes: 4096, TotalBytes: 4096},
		"RingBytes is 1073741825: use at most":         {RingBytes: 1<<30 + 1},
		"RingBytes is 9223372036854775807":             {RingBytes: math.MaxInt},
		"TotalBytes is 1099511627776: use at most":     {TotalBytes: 1024 * gib},
		"TotalBytes is 1: 3 CPUs need":                 {TotalBytes: 1},
		"TotalBytes is 2: 3 CPUs need":                 {TotalBytes: 2},
		"Wakeup is {Events:-1":                         {Wakeup: Wakeup{Events: -1}},
		"Bytes:-2":                                     {Wakeup: Wakeup{Bytes: -2}},
		"PollInterval:-3":                              {Wakeup: Wakeup{PollInterval: -3}},
		"shares in Lanes, but LanesFD is 0":            {Lanes: []int{50}},
		"a share of 0 % in Lanes":                      {LanesFD: 3, Lanes: []int{50, 0}},
		"a share of 101 % in Lanes":                    {LanesFD: 3, Lanes: []int{101}},
		"PollInterval is 1ns: use at least 100µs":      {Wakeup: Wakeup{PollInterval: 1}},
		"PollInterval is 99.999µs: use at least 100µs": {Wakeup: Wakeup{Bytes: 4096, PollInterval: 100*time.Microsecond - 1*time.Nanosecond}},
		"both Wakeup.Events and":                       {Wakeup: Wakeup{Events: 1, Bytes: 1}},
		"Wakeup.Events is 2147483649":                  {Wakeup: Wakeup{Events: 2*gib + 1}},
		"Wakeup.Bytes is 131073: use at most":          {Wakeup: Wakeup{Bytes: 128<<10 + 1}},
		"half of the ring's 1048576 bytes":             {RingBytes: 1 << 20, Wakeup: Wakeup{Bytes: 1<<19 + 1}},
		"CPU is a PayloadCPU, which only":              {CPU: PayloadCPU(0)},
		"Time is a StampedTime, which only":            {Time: StampedTime(0)},
		"half of the ring's 65536 bytes, to":           {TotalBytes: 3 << 16, Wakeup: Wakeup{Bytes: 1 << 16}},
	} {
		_, err := OpenSource(ringtest.NewKernel(3, nil).NewBuffer(), o)
		require.ErrorContains(t, err, "perfbuf.Options: ")
		require.ErrorContains(t, err, want)
	}
}

// Ring buffers refuse what their maps or programs decide, and say what is in effect.
func TestRingBufOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"RingBytes, TotalBytes, CPUs":                  {RingBytes: 4096},
		"TotalBytes, CPUs, NoTime":                     {TotalBytes: 4096},
		"CPUs, NoTime, ProgFDs":                        {CPUs: []int{0}},
		"NoTime, ProgFDs, or Wakeup's":                 {NoTime: true},
		"ProgFDs, or Wakeup's Events or Bytes":         {ProgFDs: []int{3}},
		"or Wakeup's Events or Bytes":                  {Wakeup: Wakeup{Events: 2}},
		"Wakeup's Events or Bytes is set":              {Wakeup: Wakeup{Bytes: 8}},
		"Time is at offset -1 and CPU at 0":            {Time: PayloadTime(-1)},
		"Time is at offset 0 and CPU at -3":            {CPU: PayloadCPU(-3)},
		"PollInterval:-1ns":                            {Wakeup: Wakeup{PollInterval: -1}},
		"PollInterval is 99.999µs: use at least 100µs": {Wakeup: Wakeup{Events: 1, PollInterval: 100*time.Microsecond - 1}},
		"a share of 101 % in Lanes":                    {LanesFD: 3, Lanes: []int{101}},
	} {
		_, err := OpenSource(ringtest.NewKernel(1, nil).NewRingBufs(1, 4096, 0), o)
		require.ErrorContains(t, err, "perfbuf.Options: ")
		require.ErrorContains(t, err, want)
	}
	for _, c := range []struct{ in, want Options }{
		{Options{}, Options{Wakeup: Wakeup{Events: 1, PollInterval: 100 * time.Millisecond}}},
		{Options{Time: StampedTime(8), CPU: PayloadCPU(0), LanesFD: 3, Lanes: []int{50}, Wakeup: Wakeup{PollInterval: time.Hour}},
			Options{Time: StampedTime(8), CPU: PayloadCPU(0), LanesFD: 3, Lanes: []int{50}, Wakeup: Wakeup{Events: 1, PollInterval: time.Hour}}},
	} {
		for range 2 { // what comes out can be used again
			r, err := OpenSource(ringtest.NewKernel(1, nil).NewRingBufs(1, 4096, 0), c.in)
			require.NoError(t, err)
			c.in = r.Options()
			c.in.Schedule = nil
			require.NoError(t, r.Close())
			require.Equal(t, c.want, c.in)
		}
	}
}

func TestThreshold(t *testing.T) {
	for want, o := range map[uint64]Options{
		1:       {RingBytes: 1 << 20, Wakeup: Wakeup{Events: 1}},
		2400:    {RingBytes: 1 << 20, Wakeup: Wakeup{Events: 100}}, // of the smallest records
		1600:    {RingBytes: 1 << 20, Wakeup: Wakeup{Events: 100}, NoTime: true},
		1 << 19: {RingBytes: 1 << 20, Wakeup: Wakeup{Events: 1<<31 - 1}},
		777:     {RingBytes: 1 << 20, Wakeup: Wakeup{Bytes: 777}},
	} {
		require.Equal(t, want, o.threshold())
	}
}

func TestOptionsInEffectAreACopy(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.Options().CPUs[0] = 99
	require.Equal(t, []int{firstCPU}, k.Options().CPUs)
	k.Rings()[0] = nil
	require.NotNil(t, k.Rings()[0])
}

// What the kernel's side has counted is what Stats have.
func TestOutputs(t *testing.T) {
	k := newFake(t, 1, Options{})
	require.Equal(t, OutputStats{}, k.Stats().Outputs)
	failed := errors.New("not now")
	k.hooks.outputs = func() kernel.Outputs {
		return kernel.Outputs{RecursionMisses: 3, Err: failed, CPUs: []kernel.CPUOutputs{
			{CPU: 0, Attempted: 44, Written: 1, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, TooLarge: 8, Other: 7},
			{CPU: firstCPU, Attempted: 1, Written: 1},
		}}
	}
	want := OutputStats{RecursionMisses: 3, CPUs: []CPUOutputs{
		{CPU: 0, Attempted: 44, Written: 1, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, TooLarge: 8, Other: 7},
		{CPU: firstCPU, Attempted: 1, Written: 1},
	}}
	got := k.Stats().Outputs
	require.ErrorIs(t, got.Err, failed)
	want.Err = got.Err
	require.Equal(t, want, got)
	require.Equal(t, CPUOutputs{CPU: -1, Lane: -1, Attempted: 45, Written: 2, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, TooLarge: 8, Other: 7}, want.Total())
}

// Where the kernel does not say how much was lost, programs that count do; where it does, they are
// not asked.
func TestLostByOutputs(t *testing.T) {
	for name, c := range map[string]struct {
		kernel bool
		cpu    int
		full   uint64
		want   uint64
	}{
		"all were reported":              {false, firstCPU, 5, 5},
		"some were not":                  {false, firstCPU, 8, 8},
		"not all programs count":         {false, firstCPU, 2, 5},
		"another CPU":                    {false, firstCPU + 1, 8, 5},
		"the kernel knows":               {true, firstCPU, 9, 7},
		"the kernel counts, nobody else": {true, firstCPU, 0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			k.counts = c.kernel
			k.overflow(0, 1, 5)
			ids(t, k.unordered())
			k.output(0, 1000) // reports them
			k.overflow(0, 2000, 2)
			ids(t, k.unordered())
			require.EqualValues(t, 5, k.Stats().Total().Lost)
			k.hooks.outputs = func() kernel.Outputs { return kernel.Outputs{CPUs: []kernel.CPUOutputs{{CPU: c.cpu, Full: c.full}}} }
			require.NoError(t, k.Close())
			require.Equal(t, c.want, k.Stats().Total().Lost)
		})
	}
}

// What is in use is what pkg-config names, if it knows libbpf at all.
func TestVersion(t *testing.T) {
	v := Version()
	t.Log(v)
	_, used, ok := strings.Cut(v, ", libbpf v")
	if !ok {
		return // built without cgo
	}
	require.NotContains(t, v, "headers", "they are of the same installation here")
	if out, err := exec.Command("pkg-config", "--modversion", "libbpf").Output(); err == nil {
		used, _, _ = strings.Cut(used, " ")
		require.Contains(t, string(out), used+".")
	}
}
