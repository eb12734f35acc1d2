package source

import (
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// unlessStopped returns what work returns, or an error once a signal has come: a recording may be
// large, or made to be slow.
func unlessStopped[T any](f *Flags, work func() (T, error)) (made T, err error) {
	type result struct {
		made T
		err  error
	}
	done := make(chan result, 1)
	go func() {
		made, err := work()
		done <- result{made, err}
	}()
	select {
	case r := <-done:
		return r.made, r.err
	case <-f.cmd.Context().Done():
		return made, fmt.Errorf("stopped while opening %s", strings.Join(f.Files, ", "))
	}
}

// mostEvents bounds what a recording may ask for: it is read, and decompressed, once for each event.
const mostEvents = 8

// findFiles finds the recordings and their events, each of which is a source.
func (set *Set) findFiles() (err error) {
	set.Sources, err = unlessStopped(set.flags, set.flags.findEvents)
	return err
}

func (f *Flags) findEvents() (sources []*Source, err error) {
	for _, file := range f.Files {
		events, err := perfdata.Events(file)
		if err != nil {
			return nil, err
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
			return nil, fmt.Errorf("--event %s: %s has none of this name, but %s", f.Event, file, strings.Join(names, ", "))
		}
		if len(found) > mostEvents {
			return nil, fmt.Errorf("%s has %d events, more than %d: name one by --event", file, len(found), mostEvents)
		}
		for _, e := range found {
			s := &Source{File: file, Target: &bpfmaps.Target{Map: bpfmaps.Map{Name: e.Name}}}
			if err := s.findTypes(f, e.BTF); err != nil {
				return nil, err
			}
			sources = append(sources, s)
		}
	}
	return sources, nil
}

// replay opens a recording.
func (set *Set) replay(s *Source, o perfbuf.Options) (*perfbuf.Reader, error) {
	f := set.flags
	return unlessStopped(f, func() (*perfbuf.Reader, error) {
		// No recorder needs a larger window: it is that of zstd's highest level.
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		defer decoder.Close() // Open is done with it
		return perfdata.Open(s.File, perfdata.ReplayOptions{Event: s.Name, Speed: f.Speed, Last: f.Since, WallClock: f.WallClock,
			Decompress: decoder, Reader: o})
	})
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
		s.Decoder, err = findType(f.Type, where, spec)
	} else {
		err = fmt.Errorf("--type %s: %s is damaged: %w: --btf FILE takes the type from elsewhere", f.Type, where, err)
	}
	return err
}
