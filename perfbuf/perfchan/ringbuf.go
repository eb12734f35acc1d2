package perfchan

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ringfold/ringfold/perfbuf"
)

// RingBuffer sends the events of BPF ring buffers through Go channels, like libbpfgo's type of this
// name. See [InitRingBuf]. Its methods may be called from several goroutines, including those that
// receive.
type RingBuffer struct {
	mu    sync.Mutex
	all   []*PerfBuffer // a reader and its channel for each map
	polls bool          // Poll was called
	ended bool          // Close, or Stop after Poll
}

// InitRingBuf returns a RingBuffer that sends the events of the BPF ring buffer of that name to a
// channel. It replaces libbpfgo's Module.InitRingBuf: m.InitRingBuf("events", events) becomes
// perfchan.InitRingBuf(m, "events", events), and Poll, Start, Stop and Close stay. The map may also
// be an array or hash of ring buffers: see [perfbuf.OpenRingBuf].
//
// eventsChan gets the payload of each event, in a slice of its own that the receiver may keep, in
// the order in which programs reserved them. While a receiver is slow, reading goes on until as
// many bytes wait as the ring buffer holds.
//
// InitRingBuf does not block, and fails as [perfbuf.OpenRingBuf] does. Call Close on the result:
// libbpfgo's Module.Close does not.
func InitRingBuf[M interface{ FileDescriptor() int }](module maps[M], mapName string, eventsChan chan []byte) (*RingBuffer, error) {
	b, err := openRingBuf(module, mapName, eventsChan)
	if err != nil {
		return nil, fmt.Errorf("perfchan.InitRingBuf: map %q: %w", mapName, err)
	}
	return &RingBuffer{all: []*PerfBuffer{b}}, nil
}

// AddRingBuf adds another ring buffer, with another channel. It replaces libbpfgo's
// Module.AddRingBuf, and returns true unless it fails. It fails as InitRingBuf does, and after Stop
// or Close.
func AddRingBuf[M interface{ FileDescriptor() int }](module maps[M], to *RingBuffer, mapName string, eventsChan chan []byte) (bool, error) {
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("perfchan.AddRingBuf: map %q: %w", mapName, err)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.ended {
		return fail(errors.New("the RingBuffer has been stopped or closed: make another"))
	}
	b, err := openRingBuf(module, mapName, eventsChan)
	if err != nil {
		return fail(err)
	}
	to.all = append(to.all, b)
	if to.polls {
		b.Start()
	}
	return true, nil
}

func openRingBuf[M interface{ FileDescriptor() int }](module maps[M], mapName string, events chan []byte) (*PerfBuffer, error) {
	return open(module, mapName, events, nil, []perfbuf.Order{perfbuf.Unordered()}, func(fd int, _ perfbuf.Order) (*perfbuf.Reader, error) {
		return perfbuf.OpenRingBuf(fd, perfbuf.Options{})
	})
}

// Poll is [PerfBuffer.Poll] for each ring buffer.
func (b *RingBuffer) Poll(timeout int) {
	b.mu.Lock()
	b.polls = true
	b.mu.Unlock()
	b.each(func(p *PerfBuffer) { p.Poll(timeout) })
}

// Start is Poll.
func (b *RingBuffer) Start() { b.Poll(300) }

// Stop is [PerfBuffer.Stop] for each ring buffer. Outputs of programs then land in the ring buffers
// until these are full.
func (b *RingBuffer) Stop() {
	b.mu.Lock()
	b.ended = b.ended || b.polls
	b.mu.Unlock()
	b.each((*PerfBuffer).Stop)
}

// Close is [PerfBuffer.Close] for each ring buffer.
func (b *RingBuffer) Close() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.each((*PerfBuffer).Close)
}

// Err is [PerfBuffer.Err] of the first ring buffer that has one.
func (b *RingBuffer) Err() (err error) {
	b.each(func(p *PerfBuffer) {
		if err == nil {
			err = p.Err()
		}
	})
	return err
}

// Stats is [perfbuf.Reader.Stats] of each ring buffer, in the order in which they were added.
func (b *RingBuffer) Stats() (all []perfbuf.Stats) {
	b.each(func(p *PerfBuffer) { all = append(all, p.Stats()) })
	return all
}

func (b *RingBuffer) each(f func(*PerfBuffer)) {
	b.mu.Lock()
	all := b.all // which only grows
	b.mu.Unlock()
	for _, p := range all {
		f(p)
	}
}
