//go:build !linux || !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "soak: it needs Linux, and a build with cgo")
	os.Exit(1)
}
