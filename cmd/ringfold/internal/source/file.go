package source

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/klauspost/compress/zstd"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
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
		names = append(names, cli.Printable(e.Name))
	}
	at := slices.IndexFunc(events, func(e perfdata.EventInfo) bool { return e.Name == f.Event })
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
		if err := s.findTypes(f, events[at].BTF); err != nil {
			return err
		}
	}
	if err := set.checkFilters(); err != nil {
		return err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer decoder.Close() // Open is done with it
	s.Reader, err = perfdata.Open(f.File, perfdata.ReplayOptions{Event: f.Event, Speed: f.Speed, Last: f.Since, Decompress: decoder, Reader: o})
	return err
}

// findTypes finds what a recording has of types, and the one that is named: there, or where --btf says.
func (s *Source) findTypes(f *Flags, blob []byte) (err error) {
	where := "the BTF in " + f.File
	var spec *btf.Spec
	if len(blob) > 0 {
		if spec, err = btf.LoadSpecFromReader(bytes.NewReader(blob)); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		s.types = named(spec)
	}
	switch {
	case f.Type == "":
		return nil
	case f.BTF != "":
		s.Decoder, err = f.newDecoder(f.Type, bpfmaps.Map{})
	case len(blob) == 0:
		err = fmt.Errorf("--type %s: %s has no BTF, as its recorder gave none, or has not closed it: --btf FILE takes the type from elsewhere", f.Type, f.File)
	default:
		s.Decoder, err = findType(spec, f.Type, where)
	}
	return err
}
