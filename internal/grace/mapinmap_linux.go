package grace

import (
	"errors"

	"github.com/ringfold/ringfold/internal/bpf"
	"golang.org/x/sys/unix"
)

// mapInMap waits by storing a map into an array of maps. The kernel promises that programs which
// may still see the old map have finished when the update returns. maybe_wait_bpf_programs, in
// kernel/bpf/syscall.c, calls synchronize_rcu after each successful update, even of the same map.
type mapInMap struct {
	outer, inner int // descriptors; -1 when closed
}

func openMapInMap() (Provider, error) {
	inner, err := bpf.MapCreate(bpf.MapTypeArray, "ringfold_inner", 4, 4, 1, 0)
	if err != nil {
		return nil, err
	}
	outer, err := bpf.MapCreate(bpf.MapTypeArrayOfMaps, "ringfold_grace", 4, 4, 1, inner)
	if err != nil {
		unix.Close(inner)
		return nil, err
	}
	return &mapInMap{outer, inner}, nil
}

func (*mapInMap) Name() string { return "map-in-map" }

func (m *mapInMap) Wait() error { return bpf.MapUpdate(m.outer, 0, uint32(m.inner)) }

func (m *mapInMap) Close() error {
	err := errors.Join(unix.Close(m.outer), unix.Close(m.inner))
	// A late Wait must fail, and not write to files that reuse these descriptors.
	m.outer, m.inner = -1, -1
	return err
}
