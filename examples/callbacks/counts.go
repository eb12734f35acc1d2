package main

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// kinds are the system calls that the workload makes, and the BPF program tells of: some that the Go runtime does not make.
var kinds = [...]struct {
	name string
	nr   uint32
}{
	{"getppid", unix.SYS_GETPPID},
	{"getuid", unix.SYS_GETUID},
	{"getsid", unix.SYS_GETSID},
}

// payload is struct event of callbacks.bpf.c. Neither has padding.
type payload struct {
	PID, NR uint32
	Comm    [16]byte
}

// counts is what a way of reading has received.
type counts struct {
	kinds     [len(kinds)]uint64
	lost      uint64
	attempted uint64 // what the programs have tried to output: 0 until the workload has ended
}

// add counts an event. It keeps nothing of data.
func (c *counts) add(data []byte) error {
	if len(data) < binary.Size(payload{}) {
		return fmt.Errorf("an event of %d bytes is too short: callbacks.bpf.o and counts.go do not fit together", len(data))
	}
	nr := binary.NativeEndian.Uint32(data[4:])
	for i := range kinds {
		if kinds[i].nr == nr {
			c.kinds[i]++
			return nil
		}
	}
	return fmt.Errorf("an event tells of system call %d: callbacks.bpf.o and counts.go do not fit together", nr)
}

func (c *counts) received() (n uint64) {
	for _, k := range c.kinds {
		n += k
	}
	return n
}

// complete tells whether everything is here, or known to be lost.
func (c *counts) complete() bool {
	return c.attempted > 0 && c.received()+c.lost >= c.attempted
}
