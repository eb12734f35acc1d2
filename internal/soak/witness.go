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

// uncounted are the outputs that the kernel refused without counting them as lost.
func (c *counts) uncounted() uint64 { return c.EBUSY + c.ENOENT + c.Off + c.Other }

func (c *counts) add(o *counts) {
	c.Attempted += o.Attempted
	c.OK += o.OK
	c.ENOSPC += o.ENOSPC
	c.EBUSY += o.EBUSY
	c.ENOENT += o.ENOENT
	c.Off += o.Off
	c.Other += o.Other
	for m := range c.To {
		c.To[m].OK += o.To[m].OK
		c.To[m].ENOSPC += o.To[m].ENOSPC
	}
}

// minus is what was counted since o.
func (c counts) minus(o counts) counts {
	d := counts{
		Attempted: c.Attempted - o.Attempted, OK: c.OK - o.OK, ENOSPC: c.ENOSPC - o.ENOSPC, EBUSY: c.EBUSY - o.EBUSY,
		ENOENT: c.ENOENT - o.ENOENT, Off: c.Off - o.Off, Other: c.Other - o.Other, Last: c.Last,
	}
	for m := range d.To {
		d.To[m] = mapCounts{c.To[m].OK - o.To[m].OK, c.To[m].ENOSPC - o.To[m].ENOSPC}
	}
	return d
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
			all[cpu].Levels[level] = counts{
				Attempted: word(at), OK: word(at + 1), ENOSPC: word(at + 2), EBUSY: word(at + 3), ENOENT: word(at + 4),
				Off: word(at + 5), Other: word(at + 6), Last: word(at + 7),
			}
			for m := range mapNames {
				all[cpu].Levels[level].To[m] = mapCounts{word(at + 8 + 2*m), word(at + 9 + 2*m)}
			}
		}
	}
	return all, nil
}
