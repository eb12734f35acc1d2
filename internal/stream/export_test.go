package stream

// latestOff is the offset of the sample of ring i that was delivered last, as the first of a batch.
func (m *merger) latestOff(i int) uint64 {
	from := m.rings[i].run(m.early&1 != 0)
	return from.buf[from.first-1].Off
}

// reported counts the known losses of ring i; Advance, those that no record has reported yet.
func (m *merger) reported(i int) uint64 { return m.rings[i].Raw.Losses.Known.Load() }
func (m *merger) advance(i int) uint64  { return m.rings[i].Raw.Losses.Advance }

// expect makes the next records of ring i report n losses that were delivered before.
func (m *merger) expect(i int, n uint64) { m.rings[i].Raw.Losses.Advance += n }
