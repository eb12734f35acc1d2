//go:build !perfbuf_poison

package raw

// Poison says that this is the poison build: every sample is Private.
const Poison = false

// grow makes room for a record and one more word: see NewCopy.
func (s *Single) grow(size uint64) {
	if n := int(size/8) + 1; cap(s.words) < n {
		s.words = make([]uint64, n)
	}
	s.words = s.words[:size/8]
}

// Private returns ev; in the poison build, a private copy.
func (s *Single) Private(ev Event) Event { return ev }

// Expire invalidates the event.
func (s *Single) Expire() {}
