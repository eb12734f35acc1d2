package perfbuf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "0,2": {0, 2}, "0-1,4,8-9": {0, 1, 4, 8, 9}, "5-5": {5}, "511": {511},
	} {
		got, err := parseCPUs(list)
		require.NoError(t, err, list)
		require.Equal(t, want, got, list)
	}
	for _, list := range []string{"", ",", "0,", "-1", "3-1", "a", "0-", "-", "1-2-3", "0 1", "0-9999999999", "99999999999999999999"} {
		_, err := parseCPUs(list)
		require.ErrorContains(t, err, "cannot read CPU list", list)
	}
}

func TestOnlineCPUs(t *testing.T) {
	cpus, err := onlineCPUs()
	require.NoError(t, err)
	require.NotEmpty(t, cpus)
	require.IsIncreasing(t, append([]int{-1}, cpus...))
}
