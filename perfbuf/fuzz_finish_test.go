package perfbuf

// finish reads all that is left. Nothing is unaccounted for then.
func (z *readerFuzz) finish() {
	t := z.t
	z.close(false)
	z.pass(z.all(), 255, false)
	s := z.k.Stats()
	dropped := uint64(0)
	for i, ring := range z.k.all() {
		c := s.Rings[i]
		if int64(ring.raw.Head()-ring.raw.Tail()) > 0 {
			t.Fatalf("ring %d: %d bytes are left", i, ring.raw.Head()-ring.raw.Tail())
		}
		if c.Bytes != ring.raw.Tail()-z.start {
			t.Fatalf("ring %d: %d bytes given back, %d counted", i, ring.raw.Tail()-z.start, c.Bytes)
		}
		if c.Samples != z.samples[i] || c.Corrupt != z.corrupt[i] || !z.given && c.Lost != z.lost[i] {
			t.Fatalf("ring %d: %+v; delivered were %d samples, %d lost, %d corrupt", i, c, z.samples[i], z.lost[i], z.corrupt[i])
		}
		dropped += c.Dropped
	}
	if !z.given && z.found != z.came+dropped {
		t.Fatalf("%d in streams: %d delivered, %d dropped", z.found, z.came, dropped)
	}
	if err := z.k.Close(); err != nil {
		t.Fatal(err)
	}
}
