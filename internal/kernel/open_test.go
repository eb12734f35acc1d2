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
	left   int
	closed int
}

func (o *leaving) Close() { o.closed++ }

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
	opener := &leaving{left: 4}
	k, err := OpenOnline(opener, setup)
	require.NoError(t, err)
	require.Zero(t, opener.closed)
	require.NotNil(t, k)
	require.Equal(t, [][]int{{0, 4}, {0, 3}, {0, 2}, {0, 1}, {0, 0}}, seen)
	opener = &leaving{left: 5}
	_, err = OpenOnline(opener, setup)
	require.ErrorIs(t, err, syscall.ENODEV)
	require.Equal(t, 1, opener.closed)

	unfit := errors.New("CPU 3 is not online")
	_, err = OpenOnline(&leaving{}, func([]int) (Setup, error) { return Setup{}, unfit })
	require.Equal(t, unfit, err)
}

func TestPickCPUs(t *testing.T) {
	online := []int{0, 1, 2, 5, 9}
	for _, c := range []struct {
		want []int
		cpus []int
	}{{online, nil}, {[]int{2}, []int{2}}, {[]int{0, 1, 9}, []int{9, 0, 1}}} {
		got, err := PickCPUs(c.cpus, online)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	mine := []int{9, 0, 1}
	_, err := PickCPUs(mine, online)
	require.NoError(t, err)
	require.Equal(t, []int{9, 0, 1}, mine, "the caller's slice is untouched")

	for want, cpus := range map[string][]int{
		"CPU 3 is not online: choose from [0 1 2 5 9]": {0, 3},
		"CPU -1 is not online":                         {-1},
		"CPU 5 is listed twice":                        {5, 0, 5},
		"CPUs is empty: use nil for all":               {},
	} {
		_, err := PickCPUs(cpus, online)
		require.ErrorContains(t, err, want)
	}
}
