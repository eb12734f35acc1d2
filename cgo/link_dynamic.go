//go:build linux && cgo && !perfbuf_nolibbpf && !static_build

package libbpf

// #cgo pkg-config: libbpf
import "C"

const static = false
