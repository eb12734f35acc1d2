//go:build !linux

package grace

// candidates lists none: BPF is Linux's.
func candidates() []candidate { return nil }
