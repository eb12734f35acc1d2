package main

import "fmt"

// skew measures the share of outputs that is lost when one ring gets more of them than the others and
// the consumer is barely fast enough, or not: what the order of visits changes.
func skew(r *run) error {
	if err := skewReal(r); err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		skewCase
	}{
		{"load 0.9", skewCase{load: 0.9, hot: 0.5, outputs: 500_000}},
		{"load 1.0", skewCase{load: 1, hot: 0.5, outputs: 500_000}},
		{"load 1.2", skewCase{load: 1.2, hot: 0.5, outputs: 500_000}},
		{"load 0.9, pauses", skewCase{load: 0.9, hot: 0.5, pauses: true, outputs: 2_000_000}},
		{"load 0.9, pauses, a tenth to one ring", skewCase{load: 0.9, hot: 0.1, pauses: true, outputs: 2_000_000}},
	} {
		c.warmUp = 500_000
		if r.quick {
			c.warmUp, c.outputs = 0, 20_000
		}
		shares := map[string]figure{}
		for _, reader := range skewReaders {
			share, err := simulateSkew(schedule(reader), c.skewCase)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", reader, c.name, err)
			}
			shares[reader] = figure{value: share}
		}
		r.add(fmt.Sprintf("%d simulated rings, %s", simRings, c.name), "share", shares, skewReaders...)
	}
	return nil
}
