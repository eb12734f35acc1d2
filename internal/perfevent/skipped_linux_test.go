package perfevent

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A failed look reports the error and keeps the count; after close both stay.
func TestSkipped(t *testing.T) {
	var none skipped
	n, err := none.look()
	require.NoError(t, err)
	require.Zero(t, n)

	s := skipped{programs: []int{-1}, begin: 4, latest: 3}
	for range 2 {
		n, err := s.look()
		require.ErrorIs(t, err, syscall.EBADFD) // bpf_obj_get_info_by_fd (kernel/bpf/syscall.c)
		require.Equal(t, uint64(3), n)
		s.close()
	}
}
