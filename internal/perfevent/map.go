package perfevent

import (
	"fmt"

	libbpf "github.com/ringfold/ringfold/cgo"
)

// MapError becomes perfbuf.MapError.
type MapError struct {
	ID, Type, MaxEntries int
	Name                 string
	Reason               string
}

func (e *MapError) Error() string {
	return fmt.Sprintf("perfbuf: map %q (id %d): %s", e.Name, e.ID, e.Reason)
}

// mapInfo is what is known of the map that rings are to be stored in.
type mapInfo libbpf.MapInfo

// check makes sure that the map is of the right type.
func (m mapInfo) check() error {
	if m.Type == libbpf.MapTypePerfEventArray {
		return nil
	}
	return m.fail("it is of type %s, but only BPF_MAP_TYPE_PERF_EVENT_ARRAY (4) has perf rings%s", typeName(m.Type), hint(m.Type))
}

func (m mapInfo) tooSmall(cpu int) error {
	return m.fail("it has %d entries, but CPU %d needs entry %d: leave max_entries out of the map's definition, so that libbpf "+
		"makes it large enough, or name lower CPUs in Options.CPUs", m.MaxEntries, cpu, cpu)
}

func (m mapInfo) fail(format string, args ...any) error {
	return &MapError{ID: m.ID, Type: m.Type, MaxEntries: m.MaxEntries, Name: m.Name, Reason: fmt.Sprintf(format, args...)}
}

// typeName names the map types that people mistake for a perf event array.
func typeName(t int) string {
	if name, ok := map[int]string{
		1: "BPF_MAP_TYPE_HASH", 2: "BPF_MAP_TYPE_ARRAY", 3: "BPF_MAP_TYPE_PROG_ARRAY", 5: "BPF_MAP_TYPE_PERCPU_HASH",
		6: "BPF_MAP_TYPE_PERCPU_ARRAY", 7: "BPF_MAP_TYPE_STACK_TRACE", 22: "BPF_MAP_TYPE_QUEUE", bpfMapTypeRingbuf: "BPF_MAP_TYPE_RINGBUF",
	}[t]; ok {
		return fmt.Sprintf("%s (%d)", name, t)
	}
	return fmt.Sprint(t)
}

const bpfMapTypeRingbuf = 27

func hint(t int) string {
	if t == bpfMapTypeRingbuf {
		return ": read a BPF ring buffer with libbpfgo's InitRingBuf or cilium/ebpf's ringbuf"
	}
	return ""
}
