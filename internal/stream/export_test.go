package stream

// LatestOff is the offset of the sample of ring i that was delivered last, as the first of a batch.
func (m *Merger) LatestOff(i int) uint64 {
	from := m.rings[i].run(m.early&1 != 0)
	return from.buf[from.first-1].Off
}

// Reported counts the known losses of ring i; Advance, those that no record has reported yet.
func (m *Merger) Reported(i int) uint64 { return m.rings[i].raw.Losses.Known.Load() }
func (m *Merger) Advance(i int) uint64  { return m.rings[i].raw.Losses.Advance }

// Expect makes the next records of ring i report n losses that were delivered before.
func (m *Merger) Expect(i int, n uint64) { m.rings[i].raw.Losses.Advance += n }
