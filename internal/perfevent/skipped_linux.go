package perfevent

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"golang.org/x/sys/unix"
)

// skipped counts the runs of programs that the kernel skipped, as they were running on that CPU
// already. Without programs it makes no system call.
type skipped struct {
	mu       sync.Mutex
	programs []int // duplicates; nil after close
	begin    uint64
	latest   uint64 // since begin
	err      error  // of the latest look
}

// open takes the counts so far as the baseline. Call it before the rings are in the map, and close
// after an error too.
func (s *skipped) open(progFDs []int) (err error) {
	for _, fd := range progFDs {
		dup, err := dupProgram(fd)
		if err != nil {
			return fmt.Errorf("Options.ProgFDs: %w", err)
		}
		s.programs = append(s.programs, dup)
	}
	s.begin, err = s.read()
	return err
}

// dupProgram duplicates a program's descriptor.
func dupProgram(fd int) (int, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("fd %d is not an open file descriptor: %w", fd, err)
	}
	name := host.LinkName(dup)
	_, err = bpf.RecursionMisses(dup)
	if errors.Is(err, syscall.EINVAL) || err == nil && name != "bpf-prog" && strings.HasPrefix(name, "bpf-") {
		// The kernel answers for every kind of BPF object, each with its own struct.
		err = fmt.Errorf("fd %d is %s, not bpf-prog: %w", fd, name, syscall.EINVAL)
	}
	if err != nil {
		unix.Close(dup)
		return -1, err
	}
	return dup, nil
}

func (s *skipped) read() (sum uint64, err error) {
	for _, fd := range s.programs {
		n, err := bpf.RecursionMisses(fd)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// look returns the count since open, up to now or up to the last look before close. After an error
// it is that of the look before.
func (s *skipped) look() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.programs != nil {
		var n uint64
		if n, s.err = s.read(); s.err == nil {
			s.latest = n - s.begin
		}
	}
	return s.latest, s.err
}

// close keeps the count of the latest look.
func (s *skipped) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range s.programs {
		unix.Close(fd)
	}
	s.programs = nil
}
