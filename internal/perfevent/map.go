package perfevent

import (
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
)

// checkType refuses maps without perf rings.
func checkType(m host.Map) error {
	switch m.Type {
	case bpf.MapTypePerfEventArray:
		return nil
	case bpf.MapTypeArrayOfMaps, bpf.MapTypeHashOfMaps:
		return m.Fail("it is of type %s, but only BPF_MAP_TYPE_PERF_EVENT_ARRAY (4) has perf rings: open the BPF ring buffers in a map of maps with perfbuf.OpenRingBuf, "+
			"and a perf event array in one by a descriptor of its own", m.TypeName())
	case bpf.MapTypeRingbuf:
		return m.Fail("it is of type %s, but only BPF_MAP_TYPE_PERF_EVENT_ARRAY (4) has perf rings: open a BPF ring buffer with perfbuf.OpenRingBuf", m.TypeName())
	}
	return m.Fail("it is of type %s, but only BPF_MAP_TYPE_PERF_EVENT_ARRAY (4) has perf rings", m.TypeName())
}

func tooSmall(m host.Map, cpu int) error {
	return m.Fail("it has %d entries, but CPU %d needs entry %d: leave max_entries out of the map's definition, so that libbpf "+
		"makes it large enough, or name lower CPUs in Options.CPUs", m.MaxEntries, cpu, cpu)
}
