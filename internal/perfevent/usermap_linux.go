package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/host"
	"golang.org/x/sys/unix"
)

// userMap is the user's map, and what a reader has in it.
//
// Another reader, of any library, may store its perf events over this one's at any time. They are to stay: so this one
// looks at an entry of its own before it changes it. User space cannot (perf_event_fd_array_map_lookup), but a program can.
type userMap struct {
	host.Map
	fd      int // a duplicate of the user's descriptor
	own     int // a map of ours, with the same perf events, that no program outputs to
	compare int // the program that compares the two: see loadCompare; -1: it cannot be had, and nothing is looked at
}

// place is an entry of the map.
type place struct {
	cpu  int
	held bool // the reader has stored a perf event there, and not emptied it since
}

// openUserMap makes the reader's own map. fd and info are what host.DupMap returns, and stay the caller's.
func openUserMap(fd int, info host.Map) (*userMap, error) {
	own, err := libbpf.MapCreate(libbpf.MapTypePerfEventArray, "ringfold", 4, 4, info.MaxEntries, 0)
	if err != nil {
		return nil, fmt.Errorf("a map of the reader's own: %w", err)
	}
	compare, err := loadCompare(own, fd)
	if err != nil {
		compare = -1
	}
	return &userMap{Map: info, fd: fd, own: own, compare: compare}, nil
}

// close lets go of all but the user's map.
func (m *userMap) close() {
	unix.Close(m.own)
	if m.compare >= 0 {
		unix.Close(m.compare)
	}
}

// take stores a reader's first perf event in an entry. It reports whether somebody else had one there: deleting an entry says so.
func (m *userMap) take(p *place, event int) (displaced bool, err error) {
	displaced = libbpf.MapDelete(m.fd, uint32(p.cpu)) == nil
	return displaced, m.set(p, event)
}

// set stores a perf event in an entry. If the entry is held, and another reader has taken it since, it stays that one's.
func (m *userMap) set(p *place, event int) error {
	if m.taken(p) {
		return nil
	}
	if err := libbpf.MapUpdate(m.fd, uint32(p.cpu), uint32(event)); err != nil { // the entry is what it was
		return fmt.Errorf("the map's entry of CPU %d: %w", p.cpu, err)
	}
	p.held = true
	if libbpf.MapUpdate(m.own, uint32(p.cpu), uint32(event)) != nil {
		libbpf.MapDelete(m.own, uint32(p.cpu)) // there is nothing to compare with then
	}
	return nil
}

// empty empties an entry that is held, unless another reader has taken it since.
func (m *userMap) empty(p *place) error {
	if p.held && !m.taken(p) {
		if err := libbpf.MapDelete(m.fd, uint32(p.cpu)); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("the map's entry of CPU %d: %w", p.cpu, err)
		}
	}
	p.held = false
	return nil
}

// taken reports whether another reader has taken an entry that is held, as far as can be seen: see loadCompare. Who takes the entry between
// this and the change that follows loses it: the kernel has no call for both, and these are microseconds.
func (m *userMap) taken(p *place) bool {
	if !p.held || m.compare < 0 {
		return false
	}
	other, err := libbpf.ProgTestRun(m.compare, nil, binary.NativeEndian.AppendUint64(nil, uint64(p.cpu)), -1)
	return err == nil && other != 0
}
