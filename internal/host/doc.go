// Package host connects readers of all kinds of maps to the machine: it waits in Go's poller, reads
// the kernel's clock, looks up maps by descriptor, and explains permission errors.
package host
