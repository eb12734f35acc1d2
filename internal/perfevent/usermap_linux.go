package perfevent

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// lookEvery is how often a reader looks whether the map's entries are still its own.
const lookEvery = 2 * time.Second

// userMap is the user's map, and what a reader has in it.
//
// Another reader, of any library, may store its perf events over this one's at any time. They stay:
// this one looks at an entry of its own before it changes it, and every now and then. User space
// cannot see what an entry holds (perf_event_fd_array_map_lookup), but a program can.
type userMap struct {
	host.Map
	fd      int // a duplicate of the user's descriptor
	own     int // a map of ours, with the same perf events, that no program outputs to
	compare int // the program that compares the two: see loadCompare; -1: there is none
	clock   host.Clock

	mu    sync.Mutex
	held  map[int]*entry // by CPU: entries in which the reader has stored a perf event, and not emptied since
	state kernel.Displaced
	found []int  // CPUs whose entries were taken, and watch's function has not been told
	since uint64 // when these were last seen to be ours
	tell  func(cpus []int, since uint64)
	timer *time.Timer // nil: nobody watches
}

// entry is one that is held.
type entry struct {
	seen  uint64 // when it was last seen to be ours
	taken bool   // it has been another's, or empty, since
}

// openUserMap makes the reader's own map. fd and info are what host.DupMap returns, and stay the caller's.
func openUserMap(fd int, info host.Map, clock host.Clock) (*userMap, error) {
	own, err := libbpf.MapCreate(libbpf.MapTypePerfEventArray, "ringfold", 4, 4, info.MaxEntries, 0)
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

// close lets go of all but the user's map.
func (m *userMap) close() {
	m.unwatch()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.held) // a look that is late finds nothing to look at
	unix.Close(m.own)
	if m.compare >= 0 {
		unix.Close(m.compare)
	}
}

// take stores a reader's first perf event in an entry. It reports whether somebody else had one there: deleting an entry says so.
func (m *userMap) take(cpu, event int) (replaced bool, err error) {
	replaced = libbpf.MapDelete(m.fd, uint32(cpu)) == nil
	return replaced, m.set(cpu, event)
}

// set stores a perf event in an entry. If the entry is held, and another reader has taken it since, it stays that one's.
func (m *userMap) set(cpu, event int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.look(cpu) == others {
		return nil
	}
	now := m.clock.Now()
	if err := libbpf.MapUpdate(m.fd, uint32(cpu), uint32(event)); err != nil { // the entry is what it was
		return fmt.Errorf("the map's entry of CPU %d: %w", cpu, err)
	}
	m.held[cpu] = &entry{seen: now}
	if m.compare >= 0 && m.state.OwnedUntil == 0 {
		m.state.OwnedUntil = now // the first entry, which may be taken before anybody looks at all
	}
	if libbpf.MapUpdate(m.own, uint32(cpu), uint32(event)) != nil {
		libbpf.MapDelete(m.own, uint32(cpu)) // there is nothing to compare with then
	}
	return nil
}

// empty empties an entry that is held, unless another reader has taken it since.
func (m *userMap) empty(cpu int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[cpu] != nil && m.look(cpu) != others {
		if err := libbpf.MapDelete(m.fd, uint32(cpu)); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("the map's entry of CPU %d: %w", cpu, err)
		}
	}
	delete(m.held, cpu)
	return nil
}

// look says what is in an entry, as far as can be seen, and notes who has taken it. Whoever takes the
// entry between this and a change that follows loses it: the kernel has no call for both, and these
// are microseconds. The caller holds mu.
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

// displaced is what others have done to the entries, as of the latest look at each.
func (m *userMap) displaced() kernel.Displaced {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// watch looks at all entries now and every now and then, until unwatch. It calls tell, unless that is nil, when
// others have taken more, as report does.
func (m *userMap) watch(tell func(cpus []int, since uint64)) {
	m.mu.Lock()
	m.tell, m.timer = tell, time.AfterFunc(lookEvery, m.lookAround)
	m.mu.Unlock()
	m.lookAround()
}

// unwatch looks once more, and for the last time.
func (m *userMap) unwatch() {
	m.lookAround()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
}

// lookAround looks at all entries, while somebody watches.
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

// report tells of entries that were found to be taken, if there are any, and then of all. No locks are held.
func (m *userMap) report() {
	m.mu.Lock()
	if len(m.found) > 0 {
		m.lookAtAll() // whoever takes one usually takes all
	}
	found, since, tell := m.found, m.since, m.tell
	m.found = nil
	m.mu.Unlock()
	if len(found) > 0 && tell != nil {
		tell(found, since)
	}
}
