package ringbuf

import (
	"errors"
	"fmt"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// Opener opens a BPF ring buffer, or those in an array or hash of maps. It is a kernel.Opener.
type Opener struct {
	FD        int  // the user's map; Opener duplicates it
	Overwrite bool // programs overwrite the oldest records: BPF_F_RB_OVERWRITE

	fd        int
	info      host.Map
	opened    bool // fd is open
	positions positions
}

// RingBuf is true.
func (o *Opener) RingBuf() bool { return true }

// Online returns the ids of the current ring buffers.
func (o *Opener) Online() ([]int, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	found, err := o.look()
	ids := make([]int, len(found))
	for i, s := range found {
		ids[i] = s.id
	}
	return ids, err
}

// Close frees an Opener whose Open has not succeeded.
func (o *Opener) Close() {
	if o.opened {
		unix.Close(o.fd)
		o.opened = false
	}
}

// Open maps the current ring buffers. Of the Setup it takes BootTime and Lanes.
func (o *Opener) Open(s kernel.Setup) (kernel.Kernel, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	found, err := o.look()
	if err != nil {
		return nil, o.failed(err)
	}
	return o.open(found, s)
}

func (o *Opener) open(found []shard, s kernel.Setup) (kernel.Kernel, error) {
	b := &Buffers{target: o.fd, opts: *o, epoll: -1}
	if err := b.open(found, s); err != nil {
		b.release()
		return nil, o.failed(err)
	}
	o.opened = false // the Buffers own it
	if o.sharded() {
		return &Shards{Buffers: b, stop: make(chan struct{})}, nil
	}
	return b, nil
}

// failed turns an error into the one that the user gets.
func (o *Opener) failed(err error) error {
	var permission *host.PermissionError
	switch {
	case errors.As(err, new(*host.MapError)):
		return err
	case errors.As(err, &permission): // already explained
		permission.Err = fmt.Errorf("%s: %w", o.caller(), permission.Err)
		return permission
	}
	return explain(fmt.Errorf("%s: %w", o.caller(), err))
}

// caller is the user's call, for errors.
func (o *Opener) caller() string {
	if o.Overwrite {
		return "flight.Open"
	}
	return "perfbuf.OpenRingBuf"
}

// check duplicates the descriptor and makes sure that the map has a supported type.
func (o *Opener) check() (err error) {
	if o.opened {
		return nil
	}
	if err = host.Refuse32Bit(); err != nil {
		return fmt.Errorf("%s: %w", o.caller(), err)
	}
	if o.fd, o.info, err = host.DupMap(o.FD); err != nil {
		return o.failed(err)
	}
	if !o.sharded() {
		if err := o.checkRingBuf(o.info); err != nil {
			unix.Close(o.fd)
			return err
		}
	}
	o.opened = true
	if o.Overwrite {
		if o.positions, err = lookPositions(); err != nil {
			o.Close()
			return o.failed(err)
		}
	}
	return nil
}

// sharded reports whether the ring buffers are in a map of maps.
func (o *Opener) sharded() bool { return sharded(o.info.Type) }

func sharded(mapType int) bool {
	return mapType == bpf.MapTypeArrayOfMaps || mapType == bpf.MapTypeHashOfMaps
}

// Is reports whether a descriptor is that of a BPF ring buffer, or of a map of maps.
func Is(mapFD int) bool {
	m, err := bpf.GetMapInfo(mapFD)
	return err == nil && (m.Type == bpf.MapTypeRingbuf || sharded(m.Type))
}

// checkRingBuf makes sure that a map is a ring buffer of the kind to open.
func (o *Opener) checkRingBuf(m host.Map) error {
	const types = "only BPF_MAP_TYPE_RINGBUF (27), and arrays and hashes of such maps, are BPF ring buffers"
	switch {
	case m.Type == bpf.MapTypePerfEventArray:
		return m.Fail("it is of type %s, but %s: open a perf event array with perfbuf.Open", m.TypeName(), types)
	case m.Type == mapTypeUserRingbuf:
		return m.Fail("it is of type %s, which user space writes and programs read, but %s", m.TypeName(), types)
	case m.Type != bpf.MapTypeRingbuf:
		return m.Fail("it is of type %s, but %s", m.TypeName(), types)
	case m.Flags&bpf.FlagOverwrite != 0 && !o.Overwrite:
		return m.Fail("it has the flag BPF_F_RB_OVERWRITE: programs overwrite unread records: take snapshots of it with flight.Open, or create it without the flag")
	case m.Flags&bpf.FlagOverwrite == 0 && o.Overwrite:
		return m.Fail("it lacks the flag BPF_F_RB_OVERWRITE, so outputs fail once it is full: create it with the flag (Linux 6.19), or read it with perfbuf.OpenRingBuf")
	}
	return nil
}

const mapTypeUserRingbuf = 31
