package perfbuf

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A 32-bit program is refused before anything is done, and learns why; a 64-bit one gets as far as
// its bad descriptor.
func TestOpen32Bit(t *testing.T) {
	_, err := Open(-1, Options{})
	t.Log(err)
	if strconv.IntSize == 32 {
		require.ErrorContains(t, err, "32-bit")
		require.ErrorContains(t, err, "GOARCH")
		require.ErrorIs(t, err, errors.ErrUnsupported)
	} else {
		require.Error(t, err)
		require.NotContains(t, err.Error(), "32-bit")
	}
}
