package merge

// LatestOff is the offset of the sample of ring i that was delivered last.
func (m *Merger) LatestOff(i int) uint64 {
	main := &m.rings[i].main
	return main.buf[main.first-1].Off
}
