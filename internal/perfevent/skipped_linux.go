package perfevent

import (
	"fmt"
	"sync"

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
		dup, err := host.DupObject(fd, "prog", func(fd int) error {
			_, err := bpf.RecursionMisses(fd)
			return err
		})
		if err != nil {
			return fmt.Errorf("Options.ProgFDs: %w", err)
		}
		s.programs = append(s.programs, dup)
	}
	s.begin, err = s.read()
	return err
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
