package ringbuf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"golang.org/x/sys/unix"
)

// Shards are ring buffers in an array or hash of maps. Their number grows: Shards finds ring
// buffers that are stored in the map later. If one replaces another, Shards releases the old one
// once it has been read. A ring buffer under several keys counts once.
//
// As a kernel.Hotplug, Shards uses map ids as CPU numbers.
type Shards struct {
	*Buffers
	stop    chan struct{}
	stopped sync.Once
}

var _ interface {
	kernel.Named
	kernel.LostCounter
	kernel.LossCounter
	kernel.OutputCounter
	kernel.Shedder
	kernel.Hotplug
	kernel.Watcher
} = (*Shards)(nil)

// shard is a ring buffer in the user's map.
type shard struct {
	id  int
	cpu int // the key, if it may be a CPU number, else -1
}

// look returns the current ring buffers, each once.
func (o *Opener) look() ([]shard, error) {
	if !o.sharded() {
		return []shard{{id: o.info.ID, cpu: -1}}, nil
	}
	var found []shard
	seen := map[int]bool{}
	var key []byte
	next := make([]byte, o.info.KeySize)
	// If a hash changes meanwhile, iteration may restart. The next look finds entries that this one
	// misses.
	for range 2 * o.info.MaxEntries {
		err := bpf.MapNextKey(o.fd, key, next)
		if errors.Is(err, syscall.ENOENT) {
			break
		}
		if err != nil {
			return nil, err
		}
		key = append(key[:0], next...)
		id, err := bpf.MapInner(o.fd, key)
		switch {
		case errors.Is(err, syscall.ENOENT):
		case err != nil:
			return nil, err
		case !seen[id]:
			seen[id] = true
			found = append(found, shard{id, cpuOf(key)})
		}
	}
	return found, nil
}

// cpuOf returns the CPU that a key may stand for, or -1.
func cpuOf(key []byte) int {
	if len(key) == 4 {
		if k := binary.NativeEndian.Uint32(key); k <= math.MaxInt32 {
			return int(k)
		}
	}
	return -1
}

// mapOf opens a new descriptor of a ring buffer. The error wraps ENODEV if the map is gone.
func (o *Opener) mapOf(s shard) (fd int, m host.Map, err error) {
	if !o.sharded() {
		if fd, err = unix.FcntlInt(uintptr(o.fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			err = fmt.Errorf("duplicating the map's descriptor: %w", err)
		}
		return fd, o.info, err
	}
	if fd, err = bpf.MapByID(s.id); errors.Is(err, syscall.ENOENT) {
		return -1, m, fmt.Errorf("map %d in map %q is gone: %w", s.id, o.info.Name, syscall.ENODEV)
	}
	if err != nil {
		return -1, m, refusedShard(o.info, err)
	}
	info, err := bpf.GetMapInfo(fd)
	if m = host.Map(info); err == nil {
		err = o.checkRingBuf(m)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, m, err
}

// mostShards limits the ring buffers in a reader's lifetime, including released ones. Each takes a
// few words.
const mostShards = 1 << 12

// CPUs returns a slice with room for all rings that may follow.
func (s *Shards) CPUs() []int { return make([]int, max(len(s.memory), mostShards)) }

// Online returns the ids of the ring buffers that are in the map now, and retires the others.
func (s *Shards) Online() ([]int, error) {
	found, err := s.opts.look()
	if err == nil {
		s.retire(found)
	}
	ids := make([]int, len(found))
	for i, f := range found {
		ids[i] = f.id
	}
	return ids, err
}

// retire releases ring buffers that are no longer in the map, once they have been read. Two
// consecutive looks must miss them, because one look at a hash may miss an entry, and programs that
// found them earlier must have ended. Their rings stay, empty. If such a ring buffer is stored in
// the map again, it gets a new ring.
func (s *Shards) retire(found []shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*buffer
	for _, b := range s.buffers {
		b.missed++
		if slices.ContainsFunc(found, func(f shard) bool { return f.id == b.id }) {
			b.missed = 0
		}
		if b.missed >= 2 && !b.vacated && b.isRead() {
			out = append(out, b)
		}
	}
	if len(out) == 0 || <-grace.ProgramsEnded(s.Grace, grace.MapInMap|grace.Membarrier, nil) != nil {
		return // the next look tries again
	}
	for _, b := range out {
		if b.isRead() {
			b.vacate()
		}
	}
}

// Index returns the index of the ring with that id, or -1.
func (s *Shards) Index(id int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.IndexFunc(s.buffers, func(b *buffer) bool { return b.id == id && !b.vacated })
}

// Add maps the ring buffer with that id. The error wraps ENODEV if it is no longer in the map.
func (s *Shards) Add(id int) (*raw.Ring, error) {
	found, err := s.opts.look()
	if err != nil {
		return nil, s.opts.failed(err)
	}
	for _, f := range found {
		if f.id == id {
			memory, err := s.add(f)
			if err != nil {
				return nil, s.opts.failed(err)
			}
			s.sizeLanes()
			return memory, nil
		}
	}
	return nil, fmt.Errorf("map %d is no longer in map %q: %w", id, s.opts.info.Name, syscall.ENODEV)
}

// lookInterval is the time between looks for new shards: the kernel does not announce them.
const lookInterval = time.Second

// Changed waits for lookInterval. It returns false after StopWatching.
func (s *Shards) Changed(time.Duration) bool {
	select {
	case <-time.After(lookInterval):
		return true
	case <-s.stop:
		return false
	}
}

// StopWatching makes Changed return false.
func (s *Shards) StopWatching() { s.stopped.Do(func() { close(s.stop) }) }

// WatchErr returns nil: looking regularly is the only way.
func (s *Shards) WatchErr() error { return nil }
