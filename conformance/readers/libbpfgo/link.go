package main

// #cgo pkg-config: libbpf
import "C" // libbpfgo does not name the library that it calls
