//go:build !linux || !cgo

package libbpf

// KernelVariables returns ErrUnsupported.
func KernelVariables(names ...string) ([]int32, error) { return nil, ErrUnsupported }

// KernelMembers returns ErrUnsupported.
func KernelMembers(members ...[2]string) ([]int, error) { return nil, ErrUnsupported }

// ProgTestRuns returns ErrUnsupported.
func ProgTestRuns(progFD int, data []byte, n int) error { return ErrUnsupported }
