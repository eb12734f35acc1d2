//go:build !linux || !cgo

package libbpf

// ProgLoad returns ErrUnsupported.
func ProgLoad(progType int, name, license string, insns []Insn) (int, error) {
	return -1, ErrUnsupported
}

// ProgTestRun returns ErrUnsupported.
func ProgTestRun(progFD int, data, ctx []byte, cpu int) (uint32, error) { return 0, ErrUnsupported }

// Run is a test run under way.
type Run struct{}

// ProgTestStart returns ErrUnsupported.
func ProgTestStart(progFD, packet int) (*Run, error) { return nil, ErrUnsupported }

// Over returns true.
func (r *Run) Over() bool { return true }

// Join returns ErrUnsupported.
func (r *Run) Join() error { return ErrUnsupported }
