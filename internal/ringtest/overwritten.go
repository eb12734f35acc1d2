package ringtest

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
)

// Overwritten is a ring that the kernel overwrites, and the CPU that writes it, from the end to the
// beginning.
type Overwritten struct {
	Raw  *raw.Ring // the reading side
	meta []uint64
	data []byte
	head uint64
}

// NewOverwritten makes an empty one of size data bytes, of CPU 3.
func NewOverwritten(size int) *Overwritten {
	words := make([]uint64, size/8)
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
	r := &Overwritten{meta: make([]uint64, pageSize/8), data: data}
	ring, err := raw.New(unsafe.Pointer(unsafe.SliceData(r.meta)), data, raw.LayoutRawTime)
	if err != nil {
		panic(err)
	}
	ring.SetCPU(3)
	r.Raw = ring
	return r
}

// Put writes words in front of the newest, without publishing them.
func (r *Overwritten) Put(words ...uint64) {
	r.head -= 8 * uint64(len(words))
	for i, w := range words {
		binary.NativeEndian.PutUint64(r.data[(r.head+8*uint64(i))%uint64(len(r.data)):], w)
	}
}

// Publish stores data_head.
func (r *Overwritten) Publish() { atomic.StoreUint64(&r.meta[raw.HeadWord], r.head) }

// SetHead moves data_head, as no kernel does.
func (r *Overwritten) SetHead(h uint64) {
	r.head = h
	r.Publish()
}

// Data is the data bytes, to do damage to.
func (r *Overwritten) Data() []byte { return r.data }

// PutSample puts a sample with a number and some words more, cut in two by raw_size.
func (r *Overwritten) PutSample(time, number uint64, extra int) {
	n := 8 * uint64(1+extra)
	r.Put(append([]uint64{TypeSample | (24+n)<<48, time, 4 + n, number}, make([]uint64, extra)...)...)
}

// Output puts a sample and publishes it.
func (r *Overwritten) Output(time, number uint64, extra int) {
	r.PutSample(time, number, extra)
	r.Publish()
}
