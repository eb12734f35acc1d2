//go:build perfbuf_poison

package raw

import "unsafe"

// Poison says that this is the poison build: every sample is Private.
const Poison = true

// grow allocates room for a record and one more word (see NewCopy). It reuses no memory: slices of
// the previous event must stay destroyed.
func (s *Single) grow(size uint64) { s.words = make([]uint64, size/8, size/8+1) }

// Private copies a sample into memory of its own, and keeps its time.
func (s *Single) Private(ev Event) Event {
	if s.owns(ev) || ev.Kind() != Sample {
		return ev
	}
	time, b := ev.Time(), ev.Bytes()
	s.grow((ev.View.body + 4 + uint64(len(b)) + 7) &^ 7)
	v := ev.View.on(s.words)
	own := Event{View: &v, word: ev.word &^ posBits}
	copy(own.Bytes(), b)
	return s.Timed(own, time)
}

// owns reports whether the sample lies in the memory of s.
func (s *Single) owns(ev Event) bool {
	return len(s.words) > 0 && ev.View.base == unsafe.Pointer(unsafe.SliceData(s.words))
}

// Expire invalidates the event, and destroys bytes kept beyond its life.
func (s *Single) Expire() {
	const dead = 0xCCCCCCCC_CCCCCCCC
	for i := range s.words {
		s.words[i] = dead
	}
	s.words = nil
}
