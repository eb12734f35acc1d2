package perfevent

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// lookEvery is how often a reader checks that the map's entries are still its own.
const lookEvery = 2 * time.Second

// userMap is the user's map, with the entries that a reader holds in it.
//
// Another reader, of any library, may overwrite this reader's perf events at any time, and its
// events stay. So this reader checks an entry before changing it, and periodically. User space
// cannot see an entry's perf event (perf_event_fd_array_map_lookup), but a program can.
type userMap struct {
	host.Map
	fd      int // a duplicate of the user's descriptor
	own     int // the reader's own map with the same perf events, which no program outputs to
	compare int // compares the two maps, see loadCompare; -1: no such program
	clock   host.Clock

	mu    sync.Mutex
	held  map[int]*entry // by CPU: entries that the reader has stored and not emptied
	state kernel.Displaced
	found []int  // CPUs whose entries were taken, not yet reported
	since uint64 // when they were last seen to be ours
	tell  func(cpus []int, since uint64)
	timer *time.Timer // nil: not watching
}

// entry is a held entry.
type entry struct {
	seen  uint64 // when it was last seen to be ours
	taken bool   // since then it was another's, or empty
}

// openUserMap creates the reader's own map. fd and info come from host.DupMap; fd stays the
// caller's.
func openUserMap(fd int, info host.Map, clock host.Clock) (*userMap, error) {
	own, err := bpf.MapCreate(bpf.MapTypePerfEventArray, "ringfold", 4, 4, info.MaxEntries, 0)
	if err != nil {
		return nil, fmt.Errorf("a map of the reader's own: %w", err)
	}
	m := &userMap{Map: info, fd: fd, own: own, clock: clock, held: map[int]*entry{}}
	if m.compare, err = loadCompare(own, fd); err != nil {
		m.compare = -1
		m.state.Err = cannotLook(err)
	}
	return m, nil
}

// close releases everything except the user's map.
func (m *userMap) close() {
	m.unwatch()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.held) // so that a late look does nothing
	unix.Close(m.own)
	if m.compare >= 0 {
		unix.Close(m.compare)
	}
}

// take stores a reader's first perf event in an entry. It reports whether the entry held somebody
// else's, which deleting it reveals.
func (m *userMap) take(cpu, event int) (replaced bool, err error) {
	replaced = bpf.MapDelete(m.fd, uint32(cpu)) == nil
	return replaced, m.set(cpu, event)
}

// set stores a perf event in an entry, unless another reader has taken it.
func (m *userMap) set(cpu, event int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.look(cpu) == others {
		return nil
	}
	now := m.clock.Now()
	if err := bpf.MapUpdate(m.fd, uint32(cpu), uint32(event)); err != nil { // entry unchanged
		return fmt.Errorf("the map's entry of CPU %d: %w", cpu, err)
	}
	m.held[cpu] = &entry{seen: now}
	if m.compare >= 0 && m.state.OwnedUntil == 0 {
		m.state.OwnedUntil = now // the first entry may be taken before the first look
	}
	if bpf.MapUpdate(m.own, uint32(cpu), uint32(event)) != nil {
		bpf.MapDelete(m.own, uint32(cpu)) // then look has nothing to compare with
	}
	return nil
}

// empty empties a held entry, unless another reader has taken it.
func (m *userMap) empty(cpu int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[cpu] != nil && m.look(cpu) != others {
		if err := bpf.MapDelete(m.fd, uint32(cpu)); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("the map's entry of CPU %d: %w", cpu, err)
		}
	}
	delete(m.held, cpu)
	return nil
}

// look compares a held entry with our map and notes if another reader has taken it. A reader that
// takes the entry between this and a following change loses it: the kernel has no call that does
// both. The gap is microseconds. The caller holds mu.
func (m *userMap) look(cpu int) content {
	e := m.held[cpu]
	if e == nil || m.compare < 0 {
		return unknown
	}
	now := m.clock.Now()
	is, err := runCompare(m.compare, cpu)
	switch {
	case err != nil:
		m.state.Err = cannotLook(err)
		return unknown
	case is == unknown:
		m.state.Err = cannotLook(errors.New("the kernel's memory cannot be read"))
	case is == ours:
		e.seen = now
	case !e.taken:
		e.taken = true
		if len(m.found) == 0 {
			m.since = e.seen
		}
		m.since = min(m.since, e.seen)
		m.state.Entries++
		m.found = append(m.found, cpu)
	}
	return is
}

func cannotLook(why error) error {
	return fmt.Errorf("cannot look whether the map's entries are still this reader's: %w", why)
}

// displaced returns the changes by other readers, as of the latest look at each entry.
func (m *userMap) displaced() kernel.Displaced {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// watch checks all entries now and periodically until unwatch. If tell is not nil, report calls it
// when other readers have taken more entries.
func (m *userMap) watch(tell func(cpus []int, since uint64)) {
	m.mu.Lock()
	m.tell, m.timer = tell, time.AfterFunc(lookEvery, m.lookAround)
	m.mu.Unlock()
	m.lookAround()
}

// unwatch checks one last time.
func (m *userMap) unwatch() {
	m.lookAround()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
}

// lookAround checks all entries while watching.
func (m *userMap) lookAround() {
	m.mu.Lock()
	if m.timer == nil {
		m.mu.Unlock()
		return
	}
	now := m.clock.Now()
	if m.compare >= 0 {
		m.state.Err = nil
	}
	m.lookAtAll()
	if m.state.Entries == 0 && m.state.Err == nil {
		m.state.OwnedUntil = now
	}
	m.timer.Reset(lookEvery)
	m.mu.Unlock()
	m.report()
}

func (m *userMap) lookAtAll() {
	for cpu := range m.held {
		m.look(cpu)
	}
}

// report passes on newly taken entries, after checking all others. The caller holds no locks.
func (m *userMap) report() {
	m.mu.Lock()
	if len(m.found) > 0 {
		m.lookAtAll() // a reader that takes one usually takes all
	}
	found, since, tell := m.found, m.since, m.tell
	m.found = nil
	m.mu.Unlock()
	if len(found) > 0 && tell != nil {
		tell(found, since)
	}
}
