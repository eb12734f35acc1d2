package tail

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// openFile opens a recording.
func openFile(c config) ([]*source, error) {
	events, err := perfdata.Events(c.file)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range events {
		names = append(names, e.Name)
	}
	at := slices.Index(names, c.eventName)
	switch {
	case c.eventName == "" && len(events) == 1:
		at = 0
	case c.eventName == "" && len(events) > 1:
		return nil, fmt.Errorf("%s has several events: name one by -event: %s", c.file, strings.Join(names, ", "))
	case at < 0 && len(events) > 0:
		return nil, fmt.Errorf("-event %s: %s has none of this name, but %s", c.eventName, c.file, strings.Join(names, ", "))
	}
	s := &source{file: c.file, Target: &bpfmaps.Target{}}
	if at >= 0 { // without any, Open says why
		s.Name = events[at].Name
		if c.typ != "" {
			if s.decoder, err = fileDecoder(c, events[at].BTF); err != nil {
				return nil, err
			}
		}
	}
	s.reader, err = perfdata.Open(c.file, perfdata.ReplayOptions{Event: c.eventName, Reader: perfbuf.Options{RingBytes: c.ringBytes}})
	if err != nil {
		return nil, err
	}
	return []*source{s}, nil
}

// String is such as "events (id 12)", or "events.data (event events)".
func (s *source) String() string {
	if s.file == "" {
		return s.Target.String()
	}
	return fmt.Sprintf("%s (event %s)", s.file, s.Name)
}

// fileDecoder finds a type in the BTF of a recording, or where -btf says.
func fileDecoder(c config, blob []byte) (*decoder, error) {
	switch {
	case c.btfFile != "":
		return newDecoder(c, c.typ, bpfmaps.Map{})
	case len(blob) == 0:
		return nil, fmt.Errorf("-type %s: %s has no BTF, as its recorder gave none, or was killed: -btf FILE takes the type from elsewhere", c.typ, c.file)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(blob))
	if err != nil {
		return nil, fmt.Errorf("the BTF in %s: %w", c.file, err)
	}
	return findType(spec, c.typ, "the BTF in "+c.file)
}

// writable fails if -record cannot write where it should.
func writable(c config) error {
	if c.record == "" {
		return nil
	}
	there, err := os.Stat(c.record)
	if err == nil && c.file != "" {
		if read, err := os.Stat(c.file); err == nil && os.SameFile(there, read) {
			return fmt.Errorf("-record %s would overwrite the recording that -file reads", c.record)
		}
	}
	f, openErr := os.OpenFile(c.record, os.O_WRONLY|os.O_CREATE, 0o600)
	if openErr != nil {
		return fmt.Errorf("-record: %w", openErr)
	}
	if errors.Is(err, fs.ErrNotExist) { // it was made to see that it can be
		os.Remove(c.record)
	}
	return f.Close()
}

// newRecorder begins a recording: an event for each source, with the type that it is shown as. It is nil without -record.
func newRecorder(c config, all []*source) (*perfdata.Recorder, error) {
	if c.record == "" {
		return nil, nil
	}
	var o perfdata.Options
	for _, s := range all {
		e := perfdata.EventInfo{Name: s.Name, Source: s.reader}
		if s.label != "" {
			e.Name = s.label // names of maps need not differ
		}
		if s.decoder != nil {
			b, err := btf.NewBuilder([]btf.Type{s.decoder.named}, nil)
			if err != nil {
				return nil, err
			}
			if e.BTF, err = b.Marshal(nil, nil); err != nil {
				return nil, fmt.Errorf("-record: the BTF of %s: %w", s.decoder.name, err)
			}
		}
		o.Events = append(o.Events, e)
	}
	return perfdata.Create(c.record, o)
}
