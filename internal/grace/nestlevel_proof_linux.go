package grace

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/cpulist"
	"golang.org/x/sys/unix"
)

// levelFacts describes this machine.
type levelFacts struct {
	variables [2]int32 // type numbers of nestLevelVariables in the kernel's BTF
	cpus      int      // possible CPUs
}

// provenLevels holds the facts, or the permanent reason why there are none.
var provenLevels struct {
	sync.Mutex
	facts levelFacts
	err   error
}

// nestLevelFacts shows, once per process, that a look sees outputs. It does not keep failures that
// may pass, such as too many open files.
func nestLevelFacts() (levelFacts, error) {
	p := &provenLevels
	p.Lock()
	defer p.Unlock()
	if p.err == nil && p.facts.cpus == 0 {
		facts, err := proveNestLevels()
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return levelFacts{}, err
		}
		p.facts, p.err = facts, err
	}
	return p.facts, p.err
}

func proveNestLevels() (levelFacts, error) {
	if runtime.GOARCH != "amd64" {
		return levelFacts{}, fmt.Errorf("relies on the order of stores on x86-64, and this is %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	possible, err := cpulist.Possible(cpulist.Dir)
	if err != nil {
		return levelFacts{}, err
	}
	facts := levelFacts{cpus: len(possible)}
	if last := possible[len(possible)-1]; last >= len(possible) {
		// bpf_per_cpu_ptr accepts numbers of impossible CPUs.
		return levelFacts{}, fmt.Errorf("CPU numbers have gaps: %d are possible, and one is %d: %w", len(possible), last, errors.ErrUnsupported)
	}
	variables, err := bpf.KernelVariables(nestLevelVariables[:]...)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			err = fmt.Errorf("the kernel was built without CONFIG_DEBUG_INFO_BTF, or is too old: %w: %w", err, errors.ErrUnsupported)
		}
		return levelFacts{}, err
	}
	facts.variables = [2]int32(variables)
	prog, err := loadLook(facts.variables, facts.cpus)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			err = fmt.Errorf("the kernel was built without CONFIG_KALLSYMS_ALL: %w: %w", err, errors.ErrUnsupported)
		}
		return levelFacts{}, err
	}
	defer unix.Close(prog)
	events, err := bpf.MapCreate(bpf.MapTypePerfEventArray, "ringfold_none", 4, 4, 1, 0)
	if err != nil {
		return levelFacts{}, err
	}
	defer unix.Close(events)
	cpus, err := twoCPUs()
	if err != nil {
		return levelFacts{}, err
	}
	for variable, progType := range []int{bpf.ProgTypeRawTracepoint, bpf.ProgTypeSocketFilter} {
		for _, cpu := range cpus {
			if err := proveLevel(prog, events, progType, facts.cpus, cpu, variable); err != nil {
				return levelFacts{}, err
			}
		}
	}
	return facts, nil
}

// twoCPUs returns two CPUs on which this process may run.
func twoCPUs() ([2]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return [2]int{}, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var all []int
	for cpu := 0; len(all) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	if len(all) < 2 {
		return [2]int{}, fmt.Errorf("testing it takes two CPUs, and this process may only run on CPUs %v", all)
	}
	return [2]int{all[0], all[len(all)-1]}, nil
}

const (
	enoughSeen = 3 // sightings
	// At most, for each variable and CPU; some 100 us is usual.
	proofTakes   = 200 * time.Millisecond
	packetLength = 64
)

// errNotShown may be due to lack of time: on a busy machine the two threads hardly run
// simultaneously.
var errNotShown = errors.New("too few to prove that it sees outputs under way; try again when the machine is less busy")

// proveLevel makes outputs on a CPU, and looks from another until it has seen that CPU's variable
// raised, and 0 in between. The array has no event, so the outputs go nowhere, but they raise the
// level much of the time.
func proveLevel(prog, events, progType, cpus, cpu, variable int) error {
	outputs, err := loadOutputs(progType, events)
	if err != nil {
		return err
	}
	defer unix.Close(outputs)
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() { done <- outputOn(cpu, outputs, progType, &stop) }()
	seen, idle := 0, 0
	for begin := time.Now(); (seen < enoughSeen || idle == 0) && time.Since(begin) < proofTakes; {
		var level nestLevel
		if level, err = look(prog, cpu, cpus); err != nil {
			break
		}
		switch level {
		case levelOf(cpu, variable):
			seen++
		default: // nothing, or other outputs
			idle++
		}
	}
	stop.Store(true)
	if err := errors.Join(err, <-done); err != nil {
		return err
	}
	if seen < enoughSeen || idle == 0 {
		return fmt.Errorf("while outputs were made on CPU %d, %s was seen raised %d times, and not raised %d times: %w",
			cpu, nestLevelVariables[variable], seen, idle, errNotShown)
	}
	return nil
}

// outputOn runs the program on a CPU until stop is true.
func outputOn(cpu, prog, progType int, stop *atomic.Bool) error {
	var set unix.CPUSet
	set.Set(cpu)
	defer onCPUs(&set)() // it may run there, see twoCPUs
	var packet []byte
	if progType == bpf.ProgTypeSocketFilter {
		packet = make([]byte, packetLength)
	}
	for !stop.Load() {
		if _, err := bpf.ProgTestRun(prog, packet, nil, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return nil
}
