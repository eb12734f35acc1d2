//go:build !linux

package raw_test

import "testing"

func guarded(testing.TB) []byte {
	_, data := memory(4096)
	return data
}

func reserved(tb testing.TB, n int) []byte {
	tb.Skip("memory that costs nothing is for Linux")
	return nil
}
