//go:build linux && cgo && !static_build

package libbpf

// #cgo pkg-config: libbpf
import "C"

const static = false
