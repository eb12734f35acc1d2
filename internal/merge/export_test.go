package merge

// LatestOff is the offset of the sample of ring i that was delivered last, as the first of a batch.
func (m *Merger) LatestOff(i int) uint64 {
	from := m.rings[i].run(m.early&1 != 0)
	return from.buf[from.first-1].Off
}
