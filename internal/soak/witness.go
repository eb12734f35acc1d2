//go:build linux && cgo

package main

import (
	"encoding/binary"
	"unsafe"
)

// counts is what the programs have counted themselves on one CPU and level of nesting: the beginning of
// struct slot of soak.bpf.c.
type counts struct {
	Attempted, OK, ENOSPC, EBUSY, ENOENT uint64
	Off                                  uint64 // EOPNOTSUPP: the perf event was off
	Other                                uint64
	Last                                 uint64 // number of the latest that succeeded, and one
	To                                   [len(mapNames)]mapCounts
}

// words are its fields. The pointer is good: these are slotHead numbers of 64 bits, and nothing else.
func (c *counts) words() *[slotHead]uint64 { return (*[slotHead]uint64)(unsafe.Pointer(c)) }

var _ [0]struct{} = [unsafe.Sizeof(counts{}) - 8*uintptr(slotHead)]struct{}{}

// uncounted are the outputs that the kernel refused without counting them as lost.
func (c *counts) uncounted() uint64 { return c.EBUSY + c.ENOENT + c.Off + c.Other }

func (c *counts) add(o *counts) {
	for i, n := range o.words() {
		c.words()[i] += n
	}
}

// minus is what was counted since o.
func (c counts) minus(o counts) counts {
	last := c.Last
	for i, n := range o.words() {
		c.words()[i] -= n
	}
	c.Last = last
	return c
}

// cpuCounts is what they have counted on one CPU.
type cpuCounts struct {
	Deep   uint64 // runs that found no slot, and output nothing
	Levels [levels]counts
}

func (c *cpuCounts) minus(o *cpuCounts) (d cpuCounts) {
	d.Deep = c.Deep - o.Deep
	for i := range d.Levels {
		d.Levels[i] = c.Levels[i].minus(o.Levels[i])
	}
	return d
}

func (c *cpuCounts) sum() (s counts) {
	for i := range c.Levels {
		s.add(&c.Levels[i])
	}
	return s
}

// witness returns what the programs have counted so far, by CPU. Those that are running may have counted an
// attempt and not yet what came of it.
func (p *programs) witness() ([]cpuCounts, error) {
	key := uint32(0)
	b, err := p.cpus.GetValue(unsafe.Pointer(&key))
	if err != nil {
		return nil, err
	}
	const size = 8 * (cpuWords + levels*slotTotal)
	all := make([]cpuCounts, len(b)/size)
	for cpu := range all {
		words := b[cpu*size:][:size]
		word := func(i int) uint64 { return binary.NativeEndian.Uint64(words[8*i:]) }
		all[cpu].Deep = word(1)
		for level := range all[cpu].Levels {
			at := cpuWords + level*slotTotal
			for i := range slotHead {
				all[cpu].Levels[level].words()[i] = word(at + i)
			}
		}
	}
	return all, nil
}
