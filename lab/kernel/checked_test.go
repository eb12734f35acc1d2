//go:build linux && cgo && (race || perfbuf_poison)

package kernel_test

func init() { checked = true }
