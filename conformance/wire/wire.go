// Package wire reads and writes the frames of PROTOCOL.md. It imports nothing but the standard library, so that adapters in Go may
// use it with any reader.
package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"
)

// Type says what a Frame is.
type Type uint16

// The types of PROTOCOL.md.
const (
	Event Type = iota + 1
	Lost
	Ready
	Done
	Error
	Cannot
	Damaged
	Number
	Shed
	Receipt
)

// sizes are those of frames whose size is fixed.
var sizes = map[Type]int{Lost: 8, Number: 8, Shed: 16, Receipt: 40}

// MaxData is the most bytes that a frame may carry.
const MaxData = 1 << 20

const headerSize = 24

// Frame is one frame. CPU is -1 and Time 0 if the library does not tell them.
type Frame struct {
	Type   Type
	Source int
	CPU    int
	Time   uint64
	Data   []byte
}

// Read reads the next frame. Its Data is valid until the next call with the same buffer, which grows as needed.
func Read(r *bufio.Reader, buffer *[]byte) (Frame, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Frame{}, err
	}
	le := binary.LittleEndian
	f := Frame{
		Type: Type(le.Uint16(h[:])), Source: int(le.Uint16(h[2:])), CPU: int(int32(le.Uint32(h[4:]))),
		Time: le.Uint64(h[16:]),
	}
	size := int(le.Uint32(h[8:]))
	fixed, isFixed := sizes[f.Type]
	if f.Type < Event || f.Type > Receipt || size > MaxData || isFixed && size != fixed {
		return f, fmt.Errorf("the adapter sent what is no frame: % x", h)
	}
	if cap(*buffer) < size {
		*buffer = make([]byte, size, 2*size)
	}
	f.Data = (*buffer)[:size]
	_, err := io.ReadFull(r, f.Data)
	return f, err
}

// Writer writes frames, from any goroutine. What it writes is flushed after a millisecond at most, and by Flush.
type Writer struct {
	mu     sync.Mutex
	w      *bufio.Writer
	header [headerSize]byte
	timer  *time.Timer
	armed  bool // a flush is to come
}

// NewWriter returns a Writer.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{w: bufio.NewWriterSize(w, 1<<16)}
	out.timer = time.AfterFunc(time.Hour, func() { out.Flush() })
	return out
}

// Write writes a frame. It blocks while nobody reads.
func (w *Writer) Write(f Frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, le := w.header[:], binary.LittleEndian
	le.PutUint16(h, uint16(f.Type))
	le.PutUint16(h[2:], uint16(f.Source))
	le.PutUint32(h[4:], uint32(int32(f.CPU)))
	le.PutUint32(h[8:], uint32(len(f.Data)))
	le.PutUint64(h[16:], f.Time)
	w.w.Write(h) // an error stays, and Flush returns it
	_, err := w.w.Write(f.Data)
	if !w.armed {
		w.armed = true
		w.timer.Reset(500 * time.Microsecond)
	}
	return err
}

// Text writes a frame that carries text, and flushes.
func (w *Writer) Text(t Type, text string) error {
	if err := w.Write(Frame{Type: t, CPU: -1, Data: []byte(text)}); err != nil {
		return err
	}
	return w.Flush()
}

// Losses writes how many events were lost.
func (w *Writer) Losses(source, cpu int, time, count uint64) error {
	return w.Write(Frame{Type: Lost, Source: source, CPU: cpu, Time: time, Data: words(count)})
}

// Shed writes how many outputs in a lane programs shed.
func (w *Writer) Shed(source, cpu, lane int, time, count uint64) error {
	return w.Write(Frame{Type: Shed, Source: source, CPU: cpu, Time: time, Data: words(count, uint64(lane))})
}

// Receipt writes what became of a CPU's outputs in a lane.
func (w *Writer) Receipt(source, cpu, lane int, attempted, delivered, shed, lost uint64) error {
	return w.Write(Frame{Type: Receipt, Source: source, CPU: cpu, Data: words(uint64(lane), attempted, delivered, shed, lost)})
}

// Allocations writes how many allocations on Go's heap this process has made so far.
func (w *Writer) Allocations() error {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return w.Write(Frame{Type: Number, CPU: -1, Data: words(m.Mallocs)})
}

func words(all ...uint64) (b []byte) {
	for _, word := range all {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// Flush hands on what was written.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	return w.w.Flush()
}
