package main

// ringBuf is drain for BPF ring buffers, which all programs write to, on whatever CPU.
func ringBuf(r *run) error {
	readers := built(ringfold, ringfoldForEach, ringfoldOrdered, libbpfC, cLoop, ayaReader, ciliumRingbuf, ciliumRingbufRead)
	payloads, rounds := []int{24, 56, 256, 8192}, 101
	if r.quick {
		payloads, rounds = []int{56, 8192}, 2
	}
	for _, bytes := range []int{64 << 10, 4 << 20} {
		if err := drainRings(r, readers, options{ringBytes: bytes, ringBuf: true}, payloads, rounds); err != nil {
			return err
		}
	}
	return nil
}
