//go:build linux && cgo && !perfbuf_nolibbpf && static_build

package libbpf

// #cgo pkg-config: --static libbpf
// #cgo LDFLAGS: -static
import "C"

const static = true
