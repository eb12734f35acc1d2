package source

import (
	"fmt"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// openFiles opens the recordings, and each event of one as a source. A signal ends that, too: a file may
// be large, or made to be slow.
func (set *Set) openFiles(o perfbuf.Options) error {
	opened, done := &Set{flags: set.flags}, make(chan error, 1)
	go func() { done <- opened.readFiles(o) }()
	select {
	case err := <-done:
		set.Sources = opened.Sources
		return err
	case <-set.flags.cmd.Context().Done():
		return fmt.Errorf("stopped while opening %s", strings.Join(set.flags.Files, ", "))
	}
}

// readFiles finds whatever may be wrong with a recording before it reads any of them as a whole.
func (set *Set) readFiles(o perfbuf.Options) error {
	f := set.flags
	var sources []*Source
	for i, file := range f.Files {
		for _, before := range f.Files[:i] {
			if sameFile(file, before) {
				return fmt.Errorf("%s and %s are one recording: name it once", before, file)
			}
		}
		events, err := perfdata.Events(file)
		if err != nil {
			return err
		}
		var names []string
		found := events[:0:0]
		for _, e := range events {
			names = append(names, cli.Printable(e.Name))
			if f.Event == "" || e.Name == f.Event {
				found = append(found, e)
			}
		}
		if len(events) == 0 { // Open says why
			found = make([]perfdata.EventInfo, 1)
		} else if len(found) == 0 {
			return fmt.Errorf("--event %s: %s has none of this name, but %s", f.Event, file, strings.Join(names, ", "))
		}
		for _, e := range found {
			s := &Source{File: file, Target: &bpfmaps.Target{Map: bpfmaps.Map{Name: e.Name}}}
			if err := s.findTypes(f, e.BTF); err != nil {
				return err
			}
			sources = append(sources, s)
		}
	}
	set.Sources = sources
	set.label()
	if err := set.checkFilters(); err != nil {
		return err
	}
	// No recorder needs a larger window: it is that of zstd's highest level.
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		return err
	}
	defer decoder.Close() // Open is done with it
	for _, s := range sources {
		s.Reader, err = perfdata.Open(s.File, perfdata.ReplayOptions{Event: s.Name, Speed: f.Speed, Last: f.Since, WallClock: f.WallClock,
			Decompress: decoder, Reader: o})
		if err != nil {
			return err
		}
	}
	return nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// findTypes finds the type that is named, where --btf says or in the recording. Else nobody looks at the recording's BTF.
func (s *Source) findTypes(f *Flags, blob []byte) (err error) {
	s.btf = blob
	switch {
	case f.Type == "":
		return nil
	case f.BTF != "":
		s.Decoder, err = f.newDecoder(f.Type, bpfmaps.Map{})
		return err
	case len(blob) == 0:
		return fmt.Errorf("--type %s: %s has no BTF, as its recorder gave none, or has not closed it: --btf FILE takes the type from elsewhere", f.Type, s.File)
	}
	where := "the BTF in " + s.File
	spec, err := loadForeign(blob)
	if err == nil {
		s.Decoder, err = findType(spec, f.Type, where)
	} else {
		err = fmt.Errorf("--type %s: %s is damaged: %w: --btf FILE takes the type from elsewhere", f.Type, where, err)
	}
	return err
}
