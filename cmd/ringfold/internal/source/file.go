package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// openFile opens a recording.
func (set *Set) openFile(o perfbuf.Options) error {
	f := set.flags
	events, err := perfdata.Events(f.File)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range events {
		names = append(names, e.Name)
	}
	at := slices.Index(names, f.Event)
	switch {
	case f.Event == "" && len(events) == 1:
		at = 0
	case f.Event == "" && len(events) > 1:
		return fmt.Errorf("%s has several events: name one by --event: %s", f.File, strings.Join(names, ", "))
	case at < 0 && len(events) > 0:
		return fmt.Errorf("--event %s: %s has none of this name, but %s", f.Event, f.File, strings.Join(names, ", "))
	}
	s := &Source{File: f.File, Target: &bpfmaps.Target{}}
	set.Sources = []*Source{s}
	if at >= 0 { // without any, Open says why
		s.Name = events[at].Name
		if f.Type != "" {
			if s.Decoder, err = f.fileDecoder(events[at].BTF); err != nil {
				return err
			}
		}
	}
	if err := set.checkFilter(); err != nil {
		return err
	}
	replay := perfdata.ReplayOptions{Event: f.Event, Reader: o}
	if f.Since > 0 {
		if set.since, err = lastTime(f.File, replay); err != nil {
			return err
		}
		set.since -= min(set.since, uint64(f.Since))
	}
	replay.RecordedPace = f.Speed > 0
	s.Reader, err = perfdata.Open(f.File, replay)
	return err
}

// lastTime is that of the last event of a recording, or of what is there of it.
func lastTime(path string, o perfdata.ReplayOptions) (last uint64, err error) {
	r, err := perfdata.Open(path, o)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	err = r.Run(context.Background(), func(ev perfbuf.Event) error {
		last = max(last, ev.Time())
		return nil
	})
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // whoever reads it then is told
	}
	return last, err
}

// fileDecoder finds a type in the BTF of a recording, or where --btf says.
func (f *Flags) fileDecoder(blob []byte) (*Decoder, error) {
	switch {
	case f.BTF != "":
		return f.newDecoder(f.Type, bpfmaps.Map{})
	case len(blob) == 0:
		return nil, fmt.Errorf("--type %s: %s has no BTF, as its recorder gave none, or was killed: --btf FILE takes the type from elsewhere", f.Type, f.File)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(blob))
	if err != nil {
		return nil, fmt.Errorf("the BTF in %s: %w", f.File, err)
	}
	return findType(spec, f.Type, "the BTF in "+f.File)
}
