package host

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/bpf"
)

// MapError is perfbuf.MapError.
type MapError struct {
	ID, Type, MaxEntries int // as bpftool map show has them; Type is enum bpf_map_type
	Name                 string
	Reason               string // the problem and its fix
}

func (e *MapError) Error() string {
	return fmt.Sprintf("perfbuf: map %q (id %d): %s", e.Name, e.ID, e.Reason)
}

// Map describes a map.
type Map bpf.MapInfo

// Fail makes a MapError.
func (m Map) Fail(format string, args ...any) error {
	return &MapError{ID: m.ID, Type: m.Type, MaxEntries: m.MaxEntries, Name: m.Name, Reason: fmt.Sprintf(format, args...)}
}

// TypeName returns the name of the map's type, if people confuse it with another type.
func (m Map) TypeName() string {
	if name, ok := map[int]string{
		1: "BPF_MAP_TYPE_HASH", 2: "BPF_MAP_TYPE_ARRAY", 3: "BPF_MAP_TYPE_PROG_ARRAY", 4: "BPF_MAP_TYPE_PERF_EVENT_ARRAY", 5: "BPF_MAP_TYPE_PERCPU_HASH",
		6: "BPF_MAP_TYPE_PERCPU_ARRAY", 7: "BPF_MAP_TYPE_STACK_TRACE", 12: "BPF_MAP_TYPE_ARRAY_OF_MAPS", 13: "BPF_MAP_TYPE_HASH_OF_MAPS",
		22: "BPF_MAP_TYPE_QUEUE", 27: "BPF_MAP_TYPE_RINGBUF", 31: "BPF_MAP_TYPE_USER_RINGBUF",
	}[m.Type]; ok {
		return fmt.Sprintf("%s (%d)", name, m.Type)
	}
	return fmt.Sprint(m.Type)
}
