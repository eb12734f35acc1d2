// Command cilium is the adapter of cilium/ebpf: perf.Reader and ringbuf.Reader, each read by a goroutine that calls Read.
package main

import (
	"errors"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/ringfold/ringfold/conformance/readers/internal/adapter"
	"golang.org/x/sys/unix"
)

func main() {
	adapter.Main("cilium", adapter.Version("github.com/cilium/ebpf"), func(s adapter.Settings, u *adapter.User) adapter.Reader {
		return &reader{settings: s, user: u}
	})
}

type reader struct {
	settings adapter.Settings
	user     *adapter.User
	sources  []*source
}

func (r *reader) Open() error {
	if r.settings.Ordered {
		return adapter.Cannot("each CPU's buffer is read by itself, and records have no kernel time")
	}
	r.sources = nil
	for i, m := range r.settings.Maps {
		s := &source{reader: r, index: i, flushed: make(chan struct{}, 1)}
		if err := s.open(m); err != nil {
			return err
		}
		r.sources = append(r.sources, s)
	}
	r.each((*source).start)
	return nil
}

func (s *source) open(m adapter.Map) error {
	own, err := unix.FcntlInt(uintptr(m.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	bpfMap, err := ebpf.NewMapFromFD(own)
	if err != nil {
		return err
	}
	defer bpfMap.Close() // readers have a descriptor or a mapping of their own
	settings := s.reader.settings
	if m.RingBuf {
		r, err := ringbuf.NewReader(bpfMap)
		s.library = ringbufReader{r}
		return err
	}
	options := perf.ReaderOptions{Watermark: settings.WakeupBytes}
	if settings.WakeupEvents > 1 { // one is the default
		options.WakeupEvents = settings.WakeupEvents
	}
	r, err := perf.NewReaderWithOptions(bpfMap, settings.Pages*os.Getpagesize(), options)
	s.library = perfReader{r}
	return err
}

func (r *reader) each(f func(*source)) {
	for _, s := range r.sources {
		f(s)
	}
}

func (r *reader) Do(command string, n int) error {
	switch command {
	case "flush", "drain":
		r.each((*source).flush)
	case "stop":
		r.each((*source).stop)
	case "go":
		r.each((*source).start)
	case "deadline":
		r.each((*source).stop)
		r.each(func(s *source) { s.limit(time.Duration(n) * time.Millisecond) })
		r.each((*source).start)
	case "pause":
		return r.pause((*perf.Reader).Pause)
	case "resume":
		return r.pause((*perf.Reader).Resume)
	case "close":
		return r.close()
	case "close2":
		return errors.Join(r.close(), r.close())
	case "reopen":
		return r.Open()
	default:
		return adapter.Cannot("unknown command")
	}
	return nil
}

func (r *reader) pause(f func(*perf.Reader) error) error {
	for _, s := range r.sources {
		p, ok := s.library.(perfReader)
		if !ok {
			return adapter.Cannot("ringbuf.Reader has no Pause")
		}
		if err := f(p.Reader); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) close() (err error) {
	for _, s := range r.sources {
		err = errors.Join(err, s.library.Close())
		s.wait()
	}
	return err
}
