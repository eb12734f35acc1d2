package main

import (
	"bytes"
	_ "embed"

	"github.com/aquasecurity/libbpfgo"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

//go:embed life.bpf.o
var lifeObject []byte

//go:embed switches.bpf.o
var switchesObject []byte

// life is a module of libbpfgo.
type life struct{ *libbpfgo.Module }

func loadLife() life {
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: func(int, string) {}})
	m := must(libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: lifeObject, SkipMemlockBump: true}))
	must(0, m.BPFLoadObject())
	return life{m}
}

func (l life) fd(name string) int { return must(l.GetMap(name)).FileDescriptor() }
func (l life) attach()            { must(0, l.AttachPrograms()) }
func (l life) close()             { l.Close() }

// scheduling is a collection of cilium/ebpf.
type scheduling struct {
	*ebpf.Collection
	link link.Link
}

// loadScheduling makes the ring buffers, too: one for each CPU.
func loadScheduling() *scheduling {
	must(0, rlimit.RemoveMemlock()) // before Linux 5.11
	spec := must(ebpf.LoadCollectionSpecFromReader(bytes.NewReader(switchesObject)))
	c := must(ebpf.NewCollection(spec))
	for cpu := range must(ebpf.PossibleCPU()) {
		shard := must(ebpf.NewMap(spec.Maps["switches"].InnerMap))
		must(0, c.Maps["switches"].Put(uint32(cpu), shard))
		must(0, shard.Close()) // it stays in the map
	}
	return &scheduling{Collection: c}
}

func (s *scheduling) fd(name string) int { return s.Maps[name].FD() }

func (s *scheduling) attach() {
	s.link = must(link.AttachTracing(link.TracingOptions{Program: s.Programs["on_switch"]}))
}

func (s *scheduling) close() {
	s.link.Close()
	s.Close()
}
