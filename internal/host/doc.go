// Package host is what readers of all kinds of maps need of the machine that they run on: waiting in Go's poller, the kernel's
// clock, a map by its descriptor, and who may do what.
package host
