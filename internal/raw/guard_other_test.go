//go:build !linux

package raw_test

import "testing"

func guarded(testing.TB) []byte {
	_, data := memory(4096)
	return data
}
