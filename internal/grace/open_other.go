//go:build !linux

package grace

// candidates is empty: only Linux has BPF.
func candidates() []candidate { return nil }
