package cpulist

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for list, want := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "0,2": {0, 2}, "0-1,4,8-9": {0, 1, 4, 8, 9}, "5-5": {5}, "511": {511}, "7,9-10\n": {7, 9, 10},
	} {
		got, err := Parse(list)
		require.NoError(t, err, list)
		require.Equal(t, want, got, list)
	}
	for _, list := range []string{"", ",", "0,", "-1", "3-1", "a", "0-", "-", "1-2-3", "0 1", "0-9999999999", "99999999999999999999"} {
		_, err := Parse(list)
		require.ErrorContains(t, err, "cannot read CPU list", list)
	}
}

func TestLists(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sysfs is Linux's")
	}
	online, err := Online(Dir)
	require.NoError(t, err)
	require.NotEmpty(t, online)
	require.IsIncreasing(t, append([]int{-1}, online...))
	possible, err := Possible(Dir)
	require.NoError(t, err)
	require.Subset(t, possible, online)

	dir := t.TempDir() + "/"
	_, err = Online(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "which CPUs are online (is sysfs mounted at /sys?)")
	require.NoError(t, os.WriteFile(dir+"possible", []byte("0-x\n"), 0o600))
	_, err = Possible(dir)
	require.ErrorContains(t, err, dir+"possible: cannot read CPU list")
}
