package ringtest

import (
	"os"
	"sync"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// RingBufs is a map of this kernel: a BPF ring buffer, or an array of them. It opens them, and is
// the kernel.Kernel of the reader. Programs write through [RingBufs.At]; [RingBufs.Reserve] counts
// failures.
type RingBufs struct {
	*Poll
	kernel *Kernel
	bufs   []*RingBuf
	memory []*raw.Ring
	over   chan struct{} // closed by Unhook
	unhook func()

	mu     sync.Mutex
	losses []kernel.CPULosses // of each CPU since the latest look
}

// NewRingBufs makes n ring buffers of size data bytes each, whose positions begin at start.
func (k *Kernel) NewRingBufs(n, size int, start uint64) *RingBufs {
	b := &RingBufs{Poll: NewPoll(), kernel: k, over: make(chan struct{}), losses: make([]kernel.CPULosses, len(k.cpus))}
	b.unhook = sync.OnceFunc(func() { close(b.over) })
	for range n {
		b.bufs = append(b.bufs, NewRingBuf(size, start))
	}
	return b
}

// Len is how many ring buffers there are.
func (b *RingBufs) Len() int { return len(b.bufs) }

// At is the i-th ring buffer.
func (b *RingBufs) At(i int) *RingBuf { return b.bufs[i] }

// Reserve is RingBuf.Reserve by a program on a CPU, which counts what fails as
// bpf/perfbuf_ringbuf.h does.
func (b *RingBufs) Reserve(cpu, i, n int) (Record, error) {
	r, err := b.bufs[i].Reserve(n)
	if err != nil {
		now := b.kernel.clock(cpu)
		b.mu.Lock()
		defer b.mu.Unlock()
		l := &b.losses[cpu]
		if l.Count++; l.Count == 1 {
			l.First = now
		}
		l.Last = now
	}
	return r, err
}

// Losses is kernel.LossCounter's.
func (b *RingBufs) Losses(into []kernel.CPULosses) []kernel.CPULosses {
	b.mu.Lock()
	defer b.mu.Unlock()
	for cpu := range b.losses {
		if l := &b.losses[cpu]; l.Count > 0 {
			l.CPU = cpu
			into = append(into, *l)
			*l = kernel.CPULosses{}
		}
	}
	return into
}

// RingBuf is true.
func (b *RingBufs) RingBuf() bool { return true }

// Online returns a number for each ring buffer.
func (b *RingBufs) Online() (ids []int, err error) {
	for i := range b.bufs {
		ids = append(ids, i)
	}
	return ids, nil
}

// Open makes the reading sides. The Setup is for perf events, and is not looked at.
func (b *RingBufs) Open(kernel.Setup) (kernel.Kernel, error) {
	b.memory = nil
	for i, w := range b.bufs {
		b.memory = append(b.memory, b.Shard(i, w.Raw()))
	}
	return b, nil
}

// Shard makes r the reading side of the i-th ring buffer: that of CPU i, if there are several.
func (b *RingBufs) Shard(i int, r *raw.Ring) *raw.Ring {
	if len(b.bufs) > 1 {
		r.SetCPU(i)
	}
	return r
}

// Close has nothing to close.
func (b *RingBufs) Close() {}

// Rings are the reading sides.
func (b *RingBufs) Rings() []*raw.Ring { return b.memory }

// Now reads the clock of the first CPU.
func (b *RingBufs) Now() uint64 { return b.kernel.clock(0) }

// Grace is that of Buffer.
func (b *RingBufs) Grace(grace.Options) (grace.Provider, error) {
	p := Provider(func() error {
		if !b.kernel.Grace().Wait(b.over) {
			return os.ErrClosed
		}
		return nil
	})
	return p, p.Wait()
}

// Unhook takes nothing out: programs go on to output.
func (b *RingBufs) Unhook() error {
	b.unhook()
	return nil
}

// Free has nothing to unmap.
func (b *RingBufs) Free() {}
