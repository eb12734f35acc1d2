//go:build linux && cgo

package kernel_test

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openCounted opens a reader with the counts of a program's outputs.
func openCounted(t *testing.T, c *kerneltest.Counter, opts perfbuf.Options) *perfbuf.Reader {
	t.Helper()
	opts.LanesFD = c.LanesFD()
	r, err := perfbuf.Open(c.MapFD(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// outputCPUs are the CPUs that tests output on.
func outputCPUs(t *testing.T) []int {
	t.Helper()
	return open(t, kerneltest.Load(t), perfbuf.Options{}).Options().CPUs
}

// result is what became of n outputs that returned err.
func result(t *testing.T, cpu int, err error, n uint64) perfbuf.CPUOutputs {
	t.Helper()
	c := perfbuf.CPUOutputs{CPU: cpu, Attempted: n}
	switch err {
	case nil, syscall.Errno(0):
		c.Written = n
	case syscall.ENOSPC:
		c.Full = n
	case syscall.ENOENT:
		c.NoRing = n
	case syscall.EBUSY:
		c.Nested = n
	case syscall.EOPNOTSUPP:
		c.Offline = n
	case syscall.E2BIG:
		c.NoEntry = n
	case syscall.EMSGSIZE:
		c.TooLarge = n
	case syscall.ECANCELED:
		c.Shed = n
	case syscall.EINVAL:
		c.Other = n
	default:
		require.Fail(t, "an output that nobody expects", "%v", err)
	}
	return c
}

func sum(cpu int, counts ...perfbuf.CPUOutputs) perfbuf.CPUOutputs {
	c := perfbuf.OutputStats{CPUs: counts}.Total()
	c.CPU, c.Lane = cpu, 0
	return c
}

// tried returns the program's own counts of a CPU, since it was loaded.
func tried(t *testing.T, c *kerneltest.Counter, cpu int) perfbuf.CPUOutputs {
	t.Helper()
	all := perfbuf.CPUOutputs{CPU: cpu}
	for lane := range 3 {
		all = sum(cpu, all, triedIn(t, c, cpu, lane))
	}
	return all
}

func triedIn(t *testing.T, c *kerneltest.Counter, cpu, lane int) perfbuf.CPUOutputs {
	t.Helper()
	all := perfbuf.CPUOutputs{CPU: cpu}
	for errno, n := range c.Results(cpu, lane) {
		all = sum(cpu, all, result(t, cpu, errno, n))
	}
	return all
}

// counted is what Stats has of a CPU.
func counted(t *testing.T, r *perfbuf.Reader, cpu int) perfbuf.CPUOutputs {
	t.Helper()
	s := r.Stats().Outputs
	require.NoError(t, s.Err)
	all := perfbuf.CPUOutputs{CPU: cpu}
	for lane, c := range s.CPUs[3*cpu:][:3] {
		require.Equal(t, cpu, c.CPU)
		require.Equal(t, lane, c.Lane)
		all = sum(cpu, all, c)
	}
	return all
}

// setEntry puts a perf event into the map, as no reader would.
func setEntry(t *testing.T, c *kerneltest.Counter, key int, config uint64, cpu int) {
	t.Helper()
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER5, Config: config, Sample: 1 << 40, Sample_type: unix.PERF_SAMPLE_RAW}
	event, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(event) })
	c.SetEntry(key, event)
}

func mapID(t *testing.T, fd int) uint32 {
	t.Helper()
	info, err := libbpfgo.GetMapInfoByFD(fd)
	require.NoError(t, err)
	return info.ID
}

// Every result is counted on its CPU, from Open on.
func TestKernelOutputs(t *testing.T) {
	cpus := outputCPUs(t)
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	before := map[int]perfbuf.CPUOutputs{}
	want := map[int]perfbuf.CPUOutputs{}
	for _, cpu := range cpus {
		for range 3 + cpu {
			require.Equal(t, syscall.ENOENT, c.Output(cpu, 24), "there are no rings yet")
		}
		before[cpu] = tried(t, c, cpu)
		want[cpu] = perfbuf.CPUOutputs{CPU: cpu}
	}
	r := openCounted(t, c, perfbuf.Options{RingBytes: 4096, CPUs: cpus[:1]})
	first, last := cpus[0], cpus[len(cpus)-1]
	expect := func(cpu, n int, err error) {
		t.Helper()
		for range n {
			require.Equal(t, err, c.Output(cpu, 40))
		}
		want[cpu] = sum(cpu, want[cpu], result(t, cpu, err, uint64(n)))
		for _, cpu := range cpus {
			require.Equal(t, want[cpu], counted(t, r, cpu))
			require.Equal(t, tried(t, c, cpu), sum(cpu, before[cpu], want[cpu]))
		}
	}
	expect(first, 0, nil)
	expect(first, 63, nil)
	expect(first, 5, syscall.ENOSPC)
	if last != first {
		expect(last, 7, syscall.ENOENT)
		setEntry(t, c, last, unix.PERF_COUNT_SW_BPF_OUTPUT, first)
		expect(last, 9, syscall.EOPNOTSUPP)
		setEntry(t, c, last, unix.PERF_COUNT_SW_CPU_CLOCK, last)
		expect(last, 2, syscall.EINVAL)
	}
	require.NoError(t, r.Pause())
	expect(first, 4, syscall.ENOENT)
	s := unordered(t, r)
	require.Len(t, collect(t, s), 63)
	require.NoError(t, r.Resume())
	expect(first, 1, nil)
	require.Len(t, collect(t, s), 2, "a loss, and the sample")

	shut(t, r)
	require.Equal(t, syscall.ENOENT, c.Output(first, 24))
	for _, cpu := range cpus {
		require.Equal(t, want[cpu], counted(t, r, cpu), "of the time until Close")
	}
	require.Equal(t, uint64(5), r.Stats().Rings[0].Lost)
	r.Stats().Outputs.CPUs[0].Written = 99
	require.Equal(t, want[first], counted(t, r, first), "Stats returns copies")

	r = openCounted(t, c, perfbuf.Options{})
	require.Equal(t, perfbuf.CPUOutputs{CPU: -1, Lane: -1}, r.Stats().Outputs.Total(), "each reader counts from its Open on")
}

// A map with fewer entries than there are CPUs refuses the others' outputs.
func TestKernelOutputsNoEntry(t *testing.T) {
	cpus := outputCPUs(t)
	last := cpus[len(cpus)-1]
	if last == cpus[0] {
		t.Skip("with one CPU there is no map too small")
	}
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{Entries: last})
	r := openCounted(t, c, perfbuf.Options{CPUs: cpus[:1]})
	for range 3 {
		require.Equal(t, syscall.E2BIG, c.Output(last, 24))
	}
	require.NoError(t, c.Output(cpus[0], 24))
	require.Equal(t, result(t, last, syscall.E2BIG, 3), counted(t, r, last))
	require.Equal(t, result(t, cpus[0], nil, 1), counted(t, r, cpus[0]))
}

// The kernel refuses nothing for its size. The header does, before the ring is damaged.
func TestKernelOutputsOversize(t *testing.T) {
	cpu := outputCPUs(t)[0]
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	r := openCounted(t, c, perfbuf.Options{RingBytes: 256 << 10})
	require.NoError(t, c.Output(cpu, largestSafe))
	for _, size := range []int{sizeZero, 65516, 65517, 70000} {
		require.Equal(t, syscall.EMSGSIZE, c.Output(cpu, size))
	}
	require.Equal(t, sum(cpu, result(t, cpu, nil, 1), result(t, cpu, syscall.EMSGSIZE, 4)), counted(t, r, cpu))
	require.Equal(t, tried(t, c, cpu), counted(t, r, cpu))
	recs := collect(t, unordered(t, r))
	require.Len(t, recs, 1)
	require.Len(t, recs[0].Data, largestSafe)
	require.Zero(t, r.Stats().Total().Corrupt)

	// Larger than the ring, it is refused as any that finds no room.
	c = kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	r = openCounted(t, c, perfbuf.Options{RingBytes: 4096})
	require.Equal(t, syscall.ENOSPC, c.Output(cpu, 60000))
	require.Equal(t, result(t, cpu, syscall.ENOSPC, 1), counted(t, r, cpu))
}

// The fourth output within outputs on one CPU is refused. The programs that do it are not run
// within themselves, from Linux 5.12 on.
func TestKernelOutputsNested(t *testing.T) {
	cpus := outputCPUs(t)
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{Nest: true})
	// The kernel's own sum of misses. Outputs of other processes reach these programs too, and may
	// interrupt them.
	kernels := func() (sum uint64) {
		for _, fd := range c.NestFDs() {
			n, err := bpf.RecursionMisses(fd)
			require.NoError(t, err)
			sum += n
		}
		return sum
	}
	before := kernels()
	r := openCounted(t, c, perfbuf.Options{ProgFDs: c.NestFDs()})
	after := kernels()
	misses := uint64(0)
	for _, cpu := range cpus {
		for range 3 + cpu {
			require.NoError(t, c.Nest(cpu, 24))
		}
		got := counted(t, r, cpu)
		require.Equal(t, tried(t, c, cpu), got)
		require.Equal(t, sum(cpu, result(t, cpu, nil, got.Written), result(t, cpu, syscall.EBUSY, got.Nested)), got)
		require.Positive(t, got.Nested)
		require.Equal(t, c.Nested(cpu)+uint64(3+cpu), got.Attempted)
		// Each output that gets as far as perf_output_begin reaches all the programs.
		misses += got.Written*uint64(len(c.NestFDs())) - c.Nested(cpu)
	}
	least := kernels() - after
	got := r.Stats().Outputs.RecursionMisses
	require.GreaterOrEqual(t, got, max(misses, least))
	require.LessOrEqual(t, got, kernels()-before)
	t.Logf("%+v, %d runs missed", r.Stats().Outputs.Total(), misses)
}

// Runs of a program within itself, which the kernel skips, are counted from Open on, without a map
// too.
func TestKernelOutputsRecursion(t *testing.T) {
	cpus := outputCPUs(t)
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	c.AttachFaulty()
	openFaulty := func() *perfbuf.Reader {
		r, err := perfbuf.Open(c.MapFD(), perfbuf.Options{ProgFDs: []int{c.FaultyFD()}})
		require.NoError(t, err)
		t.Cleanup(func() { r.Close() })
		require.Equal(t, perfbuf.OutputStats{}, r.Stats().Outputs)
		return r
	}
	for range 2 {
		r := openFaulty()
		faults, runs := uint64(0), uint64(0)
		for _, cpu := range cpus {
			before := c.Faults(cpu)
			onCPU(t, cpu, func() {
				for range 3 + cpu {
					c.Fault(cpu)
					faults += 2
				}
			})
			runs += c.Faults(cpu) - before
		}
		misses := faults - runs
		require.Equal(t, perfbuf.OutputStats{RecursionMisses: misses}, r.Stats().Outputs)
		if misses == 0 {
			t.Log("this kernel runs programs on tracepoints within themselves")
		} else {
			require.Equal(t, runs, misses)
		}
		shut(t, r)
		c.Fault(cpus[0])
		require.Equal(t, perfbuf.OutputStats{RecursionMisses: misses}, r.Stats().Outputs, "until Close")
	}
}

// onCPU calls f on a CPU. A test run on another CPU interrupts the task there, which may be about
// to run the same program.
func onCPU(t *testing.T, cpu int, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var set unix.CPUSet
		set.Set(cpu)
		err := unix.SchedSetaffinity(0, &set)
		if err == nil {
			f()
		}
		done <- err
	}()
	require.NoError(t, <-done)
}

// Close under load: written outputs were delivered or dropped, and refusals by full rings are
// losses, also on kernels that do not count them.
func TestKernelOutputsClose(t *testing.T) {
	cpus := outputCPUs(t)
	before := descriptors(t, "bpf-")
	t.Run("", func(t *testing.T) {
		c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
		for range 4 {
			r := openCounted(t, c, perfbuf.Options{RingBytes: 8192})
			var wg sync.WaitGroup
			over := make(chan struct{})
			for _, cpu := range cpus {
				wg.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-over:
							return
						default:
							c.Output(cpu, 24+n%1000)
						}
					}
				})
			}
			n, stream := 0, unordered(t, r)
			stats := background(t, func() {
				for r.Stats().Outputs.Total().Full < 100 {
				}
				r.Close()
			})
			require.ErrorIs(t, stream.Run(t.Context(), func(perfbuf.Event) error {
				if n++; n%100 == 0 {
					// The rings fill up
					for full := r.Stats().Outputs.Total().Full; full == r.Stats().Outputs.Total().Full; {
						if r.Stats().Outputs.Total().NoRing > 0 {
							break
						}
					}
				}
				return nil
			}), os.ErrClosed)
			<-stats
			<-r.Done()
			close(over)
			wg.Wait()
			s := r.Stats()
			for i, cpu := range cpus {
				got := counted(t, r, cpu)
				require.Equal(t, sum(cpu, got), got)
				require.Equal(t, got.Written, s.Rings[i].Samples+s.Rings[i].Dropped)
				require.Equal(t, got.Full, s.Rings[i].Lost)
				require.Equal(t, got.Attempted, got.Written+got.Full+got.NoRing)
			}
			require.Positive(t, s.Outputs.Total().Full)
		}
	})
	require.Equal(t, before, descriptors(t, "bpf-"))
}

// descriptors counts those that are of a kind.
func descriptors(t *testing.T, kind string) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if link, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(link, "anon_inode:"+kind) {
			n++
		}
	}
	return n
}

// The caller may close the descriptors that it has named.
func TestKernelOutputsCallerCloses(t *testing.T) {
	cpu := outputCPUs(t)[0]
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	fd, err := unix.FcntlInt(uintptr(c.LanesFD()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	r, err := perfbuf.Open(c.MapFD(), perfbuf.Options{LanesFD: fd})
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	require.NoError(t, c.Output(cpu, 24))
	require.Equal(t, result(t, cpu, nil, 1), counted(t, r, cpu))
	shut(t, r)
	require.Equal(t, result(t, cpu, nil, 1), counted(t, r, cpu))
}

// A reader that nobody has closed leaves no descriptors behind once it is collected.
func TestKernelOutputsForgotten(t *testing.T) {
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	before := descriptors(t, "bpf-")
	func() {
		_, err := perfbuf.Open(c.MapFD(), perfbuf.Options{LanesFD: c.LanesFD(), ProgFDs: []int{c.FaultyFD()}})
		require.NoError(t, err)
	}()
	for descriptors(t, "bpf-") > before {
		runtime.GC()
	}
}

func TestKernelOutputsBadOptions(t *testing.T) {
	e := kerneltest.Load(t)
	for _, fd := range []int{
		e.MapFD(), e.ArrayFD(),
		newMap(t, libbpfgo.MapTypeArray, 4, 192, 512).FileDescriptor(), // not mappable
		newMap(t, libbpfgo.MapTypeArray, 4, 64, 512).FileDescriptor(),  // no lane
		newMap(t, libbpfgo.MapTypeArray, 4, 256, 512).FileDescriptor(), // half of one
		newMap(t, libbpfgo.MapTypePerCPUArray, 4, 192, 512).FileDescriptor(),
		newMap(t, libbpfgo.MapTypeHash, 8, 8, 128).FileDescriptor(),
	} {
		programs := descriptors(t, "bpf-prog")
		err := openFails(t, e.MapFD(), perfbuf.Options{LanesFD: fd, ProgFDs: []int{e.ProgFD()}})
		var m *perfbuf.MapError
		require.ErrorAs(t, err, &m)
		require.EqualValues(t, mapID(t, fd), m.ID)
		require.ErrorContains(t, err, "PERFBUF_LANES of bpf/perfbuf_lanes.h")
		require.Equal(t, programs, descriptors(t, "bpf-prog"))
	}
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	for _, c := range []struct {
		options perfbuf.Options
		errno   syscall.Errno
		text    string
	}{
		{perfbuf.Options{LanesFD: e.ProgFD()}, syscall.EINVAL, "LanesFD: fd "},
		{perfbuf.Options{LanesFD: int(file.Fd())}, syscall.EINVAL, "/dev/null, not a BPF map"},
		{perfbuf.Options{LanesFD: -1}, syscall.EBADF, "LanesFD: map fd -1 is not an open file descriptor"},
		{perfbuf.Options{ProgFDs: []int{e.ProgFD(), e.MapFD()}}, syscall.EINVAL, "Options.ProgFDs: fd "},
		{perfbuf.Options{ProgFDs: []int{0xffff}}, syscall.EBADF, "65535 is not an open file descriptor"},
	} {
		programs := descriptors(t, "bpf-prog")
		err := openFails(t, e.MapFD(), c.options)
		require.ErrorIs(t, err, c.errno)
		require.ErrorContains(t, err, c.text)
		require.Equal(t, programs, descriptors(t, "bpf-prog"))
	}
	// Other readers' entries stay.
	r := open(t, e, perfbuf.Options{})
	openFails(t, e.MapFD(), perfbuf.Options{LanesFD: -1})
	requireReads(t, e, r)
}
