package suite

import (
	"fmt"
	"os"
	"time"
)

// lifeMemory: A reader's memory does not grow with the events that it has delivered.
//
// Expected: an agent runs for months.
//
// Kernel: rings are of a fixed size.
//
// Set-up: load on all CPUs. The process's resident memory is looked at after a warm-up, and after five times as many events.
//
// Check: it has not grown by more than 16 MiB. The figures are noted.
func lifeMemory(t *T) {
	source, s := t.StartPerf("pages=64")
	stop := t.load(source, 1, 100, 2*time.Millisecond, 0)
	few := int(t.duration(30_000))
	s.Until("the first events are delivered", func(st *State) bool { return st.Events >= few })
	before := s.Look().Resident
	s.Until("the others are delivered", func(st *State) bool { return st.Events >= 5*few })
	after := s.Look().Resident
	stop()
	s.Settle()
	if after > before+16<<20 {
		t.Failf("resident memory grew from %d KiB to %d KiB", before>>10, after>>10)
	}
	t.Notef("%d KiB, then %d KiB", before>>10, after>>10)
}

// lifeRingMemory: Rings have the size that was asked for.
//
// Expected: the setting is the memory that is locked, for each CPU, and a page more.
//
// Kernel: a ring is 2^n pages and one for its positions (perf_mmap); it is locked memory.
//
// Set-up: 32 pages for each CPU.
//
// Check: the process has one mapping of 33 pages for each CPU online, by /proc/PID/maps.
func lifeRingMemory(t *T) {
	s := t.Start(t.Perf(), "pages=32")
	p := s.Look()
	cpus := len(t.CPUs())
	if want := cpus * 33 * os.Getpagesize(); p.RingSize != want {
		t.Failf("%d mappings of rings have %d KiB, for %d CPUs with rings of 32 pages: %d KiB were expected", p.Rings, p.RingSize>>10, cpus, want>>10)
	}
	t.Notef("%d descriptors of perf events", p.Events)
}

// lifeWrongMap: A map of another type is an error when it is opened.
//
// Expected: the mistake is named, and nothing crashes or waits.
//
// Kernel: setting an event in another type of map does nothing good; mapping it fails.
//
// Set-up: the adapter is told that a ring buffer is a perf event array.
//
// Check: the reader reports an error, and the process ends with status 0.
func lifeWrongMap(t *T) {
	source := t.Source(Config{Kind: "ringbuf", Bytes: 1 << 16})
	file, err := source.File(source.Map())
	t.must(err)
	source.Kind = "perf"
	t.refuses(source, file, "a ring buffer is opened as a perf event array")
}

// refuses launches on a file, of a map that the adapter is told to be the source's. It must say an error.
func (t *T) refuses(source *Source, file *os.File, opened string) {
	defer file.Close()
	s := t.launch([]*Source{source}, []*os.File{file}, "pages=16")
	s.lenient, s.closed = true, true
	s.Until("the reader refuses the map", func(st *State) bool {
		if st.Ready {
			t.Failf("%s", opened)
		}
		return len(st.Errors) > 0
	})
	s.With(func(st *State) { t.Notef("%s", st.Errors[0]) })
}

// setOnline takes a CPU offline or back, if the suite was told that it may. At the scenario's end all are online as before.
func (t *T) setOnline(cpu int, online bool) {
	if !Hotplug {
		t.Cannotf("the suite was not told to take CPUs offline (-hotplug)")
	}
	path := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	value := map[bool]string{false: "0", true: "1"}
	t.must(os.WriteFile(path, []byte(value[online]), 0))
	if !online {
		t.Cleanup(func() { os.WriteFile(path, []byte("1"), 0) })
	}
}

// Hotplug allows scenarios to take CPUs offline.
var Hotplug bool

// lifeOffline: A CPU that goes offline takes nothing with it.
//
// Expected: what it has output is delivered; all other CPUs go on.
//
// Kernel: its event stops; the ring stays readable (perf_event_exit_cpu).
//
// Set-up: reading is stopped, the last CPU outputs, goes offline, reading goes on, others output.
//
// Check: all events are delivered.
func lifeOffline(t *T) {
	a, b := t.Two()
	source, s := t.StartPerf("pages=16")
	s.Do("stop")
	t.Output(source, b, 20, 64)
	t.setOnline(b, false)
	s.Do("go")
	t.Output(source, a, 20, 64)
	s.Settle()
	s.Account()
}

// lifeBack: A CPU that was offline and is back is read again.
//
// Expected: CPUs of virtual machines and of sleeping laptops come and go.
//
// Kernel: its event stays off: a reader must enable it or open it anew. Until then outputs fail, uncounted.
//
// Set-up: the last CPU goes offline and comes back. It outputs until one event is delivered; then 20 more.
//
// Check: one is delivered, and all 20 are.
//
// Known: for events in general, bpftrace/bpftrace#3125.
func lifeBack(t *T) {
	_, b := t.Two()
	source, s := t.StartPerf("pages=16")
	t.Output(source, b, 1, 64)
	s.Settle()
	t.setOnline(b, false)
	t.setOnline(b, true)
	s.comes(source, b)
}

// lifeOnline: A CPU that comes online after the reader was opened is read.
//
// Expected: as life/cpu-back.
//
// Kernel: the map has no event for it: -ENOENT, uncounted.
//
// Set-up: the last CPU is offline when the reader opens, and comes online.
//
// Check: as life/cpu-back.
//
// Known: cilium/ebpf does not follow CPUs, by its own account in cilium/ebpf#81.
func lifeOnline(t *T) {
	_, b := t.Two()
	source := t.Perf()
	t.setOnline(b, false)
	s := t.Start(source, "pages=16")
	t.setOnline(b, true)
	s.comes(source, b)
}

// comes outputs on a CPU until something is delivered, and then expects all.
func (s *Subject) comes(source *Source, cpu int) {
	begin := s.t.runs(source)[cpu].Attempted
	for end := time.Now().Add(s.t.patience); ; sleepMillis(20) {
		s.t.Output(source, cpu, 1, 64)
		came := false
		s.With(func(st *State) { came = st.Of[0][cpu].Levels[0].Next > begin })
		if came {
			break
		}
		if time.Now().After(end) {
			s.t.Failf("%v after CPU %d came online, none of its events is delivered", s.t.patience, cpu)
		}
	}
	s.t.Output(source, cpu, 20, 64)
	want := s.t.runs(source)[cpu].Attempted
	s.Until("the events of that CPU are delivered", func(st *State) bool { return st.Of[0][cpu].Levels[0].Next == want })
}

// lifeSparse: With an offline CPU between online ones, each CPU's events are read.
//
// Expected: the numbers of CPUs have gaps.
//
// Kernel: an entry's index in the map is the CPU's number, not its rank among those online.
//
// Set-up: the second last CPU of at least three is offline when the reader opens. Outputs on each.
//
// Check: all are delivered, as of the right CPU.
//
// Known: cilium/ebpf#2100.
func lifeSparse(t *T) {
	cpus := t.CPUs()
	if len(cpus) < 3 {
		t.Cannotf("this takes 3 CPUs, and %d are online", len(cpus))
	}
	t.setOnline(cpus[len(cpus)-2], false)
	source, s := t.StartPerf("pages=16")
	for _, cpu := range t.CPUs() {
		t.Output(source, cpu, 20, 64)
	}
	s.Settle()
	s.Account()
	for cpu, c := range t.Total(source) {
		if c.NoRing+c.Off > 0 {
			t.Failf("outputs on CPU %d found no ring", cpu)
		}
	}
}
