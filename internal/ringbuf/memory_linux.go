package ringbuf

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/raw"
	"golang.org/x/sys/unix"
)

// buffer is a mapped ring buffer.
type buffer struct {
	id       int
	fd       int
	consumer []byte // a page that starts with consumer_pos
	rest     []byte // a page that starts with producer_pos, then the data twice
	memory   *raw.Ring

	missed  int  // consecutive looks that did not find it in the map
	vacated bool // see vacate
}

// positions are where overwrite_pos and pending_pos are in the page that begins with producer_pos,
// in bytes.
type positions struct{ overwritten, pending int }

// lookPositions asks the kernel, which has moved pending_pos once, in Linux 6.19. The positions of
// that release stand in where it does not say.
func lookPositions() (positions, error) {
	const in = "bpf_ringbuf" // kernel/bpf/ringbuf.c
	at, err := bpf.KernelMembers([2]string{in, "producer_pos"}, [2]string{in, "overwrite_pos"}, [2]string{in, "pending_pos"})
	if err != nil {
		return positions{8, 16}, nil
	}
	p := positions{at[1] - at[0], at[2] - at[0]}
	if last := os.Getpagesize() - 8; min(p.overwritten, p.pending) < 8 || max(p.overwritten, p.pending) > last || (p.overwritten|p.pending)%8 != 0 {
		return p, fmt.Errorf("this kernel has overwrite_pos at %d and pending_pos at %d, not in the page of producer_pos: %w", p.overwritten, p.pending, errors.ErrUnsupported)
	}
	return p, nil
}

// mapBuffer maps a ring buffer. On success the buffer owns the descriptor.
func mapBuffer(fd int, m host.Map, at positions) (*buffer, error) {
	page, prot := os.Getpagesize(), unix.PROT_READ
	if m.Flags&bpf.FlagOverwrite == 0 { // else there is no consumer
		prot |= unix.PROT_WRITE
	}
	b := &buffer{id: m.ID, fd: fd}
	var err error
	// ringbuf_map_mmap_kern in kernel/bpf/ringbuf.c allows writing to the first page alone.
	if b.consumer, err = unix.Mmap(fd, 0, page, prot, unix.MAP_SHARED); err != nil {
		return nil, host.RefusedMapping(fd, fmt.Errorf("mmap of the consumer's page of map %q (id %d): %w", m.Name, m.ID, err))
	}
	if b.rest, err = unix.Mmap(fd, int64(page), page+2*m.MaxEntries, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		unix.Munmap(b.consumer)
		return nil, host.RefusedMapping(fd, fmt.Errorf("mmap of %d bytes twice, the data of map %q (id %d): %w", m.MaxEntries, m.Name, m.ID, err))
	}
	// Invariant: both begin with a page, which holds an aligned word, and stay mapped until unmap.
	b.memory, err = raw.NewRingBuf((*uint64)(unsafe.Pointer(&b.consumer[0])), (*uint64)(unsafe.Pointer(&b.rest[0])), b.rest[page:])
	if err != nil {
		b.unmap()
		return nil, err
	}
	if m.Flags&bpf.FlagOverwrite != 0 {
		// Invariant: lookPositions has found both in that page, aligned.
		b.memory.SetOverwritten((*uint64)(unsafe.Pointer(&b.rest[at.overwritten])), (*uint64)(unsafe.Pointer(&b.rest[at.pending])))
	}
	return b, nil
}

// isRead reports whether the reader has read all of it.
func (b *buffer) isRead() bool { return b.memory.Tail() == b.memory.Head() }

// vacate releases the map. The reader may access the memory until unmap, so vacate replaces it by
// memory that looks like the ring buffer: fully read, at the same positions.
func (b *buffer) vacate() error {
	at := b.memory.Tail()
	old := [][]byte{b.consumer, b.rest}
	var fresh []unsafe.Pointer
	for _, m := range old {
		p, err := unix.MmapPtr(-1, 0, nil, uintptr(len(m)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err != nil {
			for i, p := range fresh {
				unix.MunmapPtr(p, uintptr(len(old[i])))
			}
			return err
		}
		*(*uint64)(p) = at // invariant: just mapped; the first word is a position
		fresh = append(fresh, p)
	}
	for i, m := range old {
		// Invariant: mremap (mm/mremap.c) holds mmap_lock for writing while it replaces the
		// mapping, so the reader always finds one of the two.
		if _, err := unix.MremapPtr(fresh[i], uintptr(len(m)), unsafe.Pointer(&m[0]), uintptr(len(m)), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
			return err
		}
	}
	b.vacated = true
	unix.Close(b.fd)
	return nil
}

func (b *buffer) unmap() {
	unix.Munmap(b.consumer)
	unix.Munmap(b.rest)
}
