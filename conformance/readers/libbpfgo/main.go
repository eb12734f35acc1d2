// Command libbpfgo is the adapter of libbpfgo: InitPerfBuf and InitRingBuf, whose channels are read by a goroutine.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"sync"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/conformance/readers/internal/adapter"
)

//go:embed maps.bpf.o
var object []byte

func main() {
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: func(level int, msg string) {
		if level <= libbpfgo.LibbpfWarnLevel {
			fmt.Fprint(os.Stderr, msg)
		}
	}})
	adapter.Main("libbpfgo", adapter.Version("github.com/aquasecurity/libbpfgo"), func(s adapter.Settings, u *adapter.User) adapter.Reader {
		return &reader{settings: s, user: u}
	})
}

type reader struct {
	settings adapter.Settings
	user     *adapter.User
	sources  []*source
	loops    sync.WaitGroup
}

// buffer is a PerfBuffer or a RingBuffer.
type buffer interface {
	Poll(timeout int)
	Stop()
	Close()
}

type source struct {
	module *libbpfgo.Module
	buffer buffer
	events chan []byte
	lost   chan uint64
}

func (r *reader) Open() error {
	switch s := r.settings; {
	case s.Ordered:
		return adapter.Cannot("each CPU's buffer is read by itself, and events have no time and no CPU")
	case s.WakeupEvents > 1 || s.WakeupBytes > 0:
		return adapter.Cannot("InitPerfBuf wakes for each event")
	case s.Poll > 0:
		return adapter.Cannot("there is no such setting, as there is no watermark")
	}
	r.sources = nil
	for _, m := range r.settings.Maps {
		s := &source{events: make(chan []byte), lost: make(chan uint64)}
		if err := s.open(m, r.settings.Pages); err != nil {
			return err
		}
		r.sources = append(r.sources, s)
	}
	for i, s := range r.sources {
		r.loops.Go(func() { r.loop(i, s) })
		s.buffer.Poll(300) // ms, as in its documentation and its tests
	}
	return nil
}

func (s *source) open(m adapter.Map, pages int) (err error) {
	s.module, err = libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "maps", SkipMemlockBump: true})
	if err != nil {
		return err
	}
	bpfMap, err := s.module.GetMap("events")
	if err != nil {
		return err
	}
	if err := bpfMap.ReuseFD(m.FD); err != nil {
		return err
	}
	if err := s.module.BPFLoadObject(); err != nil {
		return err
	}
	name := bpfMap.Name() // that of the map which it stands for now
	if m.RingBuf {
		s.buffer, err = s.module.InitRingBuf(name, s.events)
	} else {
		s.buffer, err = s.module.InitPerfBuf(name, s.events, s.lost, pages)
	}
	return err
}

// loop reads the channels until the first is closed: then all has been delivered.
func (r *reader) loop(index int, s *source) {
	for {
		select {
		case payload, ok := <-s.events:
			if !ok {
				return
			}
			if r.user.Event(index, -1, payload) {
				r.close(1)
				r.user.Closed()
			}
		case n, ok := <-s.lost:
			if ok {
				r.user.Lost(index, -1, n)
			} else {
				s.lost = nil
			}
		}
	}
}

func (r *reader) close(times int) {
	for _, s := range r.sources {
		for range times {
			s.buffer.Close()
		}
		s.module.Close()
	}
	r.sources = nil
}

func (r *reader) Do(command string, n int) error {
	switch command {
	case "flush", "drain":
		return adapter.Cannot("events come when the kernel wakes the reader: there is no call that reads what is left")
	case "stop":
		for _, s := range r.sources {
			s.buffer.Stop()
		}
		r.loops.Wait()
	case "go":
		return adapter.Cannot("Stop closes the channels: a buffer cannot be polled again")
	case "deadline":
		return adapter.Cannot("Poll's timeout is that of a loop that does not end")
	case "pause", "resume":
		return adapter.Cannot("there is no way to pause a PerfBuffer or RingBuffer")
	case "close", "close2":
		r.close(map[string]int{"close": 1, "close2": 2}[command])
		r.loops.Wait()
	case "reopen":
		return r.Open()
	default:
		return adapter.Cannot("unknown command")
	}
	return nil
}
