package kernel

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// leaving is an Opener. One of its CPUs goes offline before each of the first few calls of Open.
type leaving struct {
	Opener
	left int
}

func (o *leaving) Online() ([]int, error) { return []int{0, o.left}, nil }

func (o *leaving) Open(s Setup) (Kernel, error) {
	if o.left--; o.left >= 0 {
		return nil, syscall.ENODEV
	}
	return struct{ Kernel }{}, nil
}

// OpenOnline lists the CPUs again when one has gone, a few times.
func TestOpenOnline(t *testing.T) {
	var seen [][]int
	setup := func(online []int) (Setup, error) { seen = append(seen, online); return Setup{}, nil }
	k, err := OpenOnline(&leaving{left: 4}, setup)
	require.NoError(t, err)
	require.NotNil(t, k)
	require.Equal(t, [][]int{{0, 4}, {0, 3}, {0, 2}, {0, 1}, {0, 0}}, seen)
	_, err = OpenOnline(&leaving{left: 5}, setup)
	require.ErrorIs(t, err, syscall.ENODEV)

	unfit := errors.New("CPU 3 is not online")
	_, err = OpenOnline(&leaving{}, func([]int) (Setup, error) { return Setup{}, unfit })
	require.Equal(t, unfit, err)
}
