package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
)

// selectors are the words before what names a map or a recording.
var selectors = []string{"id", "name", "pinned", "file"}

// arguments reads "id 12 name events,time=8 pinned /sys/fs/bpf/x", or names of recordings.
func (f *Flags) arguments(args []string) error {
	for len(args) > 0 {
		word := args[0]
		if slices.Contains(selectors, word) {
			if len(args) < 2 || args[1] == "" {
				return fmt.Errorf("what comes behind %q is missing", word)
			}
			if err := f.argument(word, args[1]); err != nil {
				return fmt.Errorf("%s %s: %w", word, args[1], err)
			}
			args = args[2:]
			continue
		}
		if fleet.Is(word) {
			if f.Fleet != nil {
				return errors.New("one stream of recordings is read at a time: name its hosts by hosts=")
			}
			a, err := fleet.Parse(word, false)
			if err != nil {
				return err
			}
			f.Fleet, args = &a, args[1:]
			continue
		}
		if !strings.Contains(word, "/") && !strings.HasSuffix(word, ".data") {
			return fmt.Errorf("%q: name a map by id N, name S or pinned PATH, or a recording by file PATH", word)
		}
		if err := f.argument("file", word); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
		args = args[1:]
	}
	switch {
	case f.Fleet != nil && (len(f.Files) > 0 || len(f.Maps) > 0):
		return errors.New("recordings of hosts, files and maps are read one after the other")
	case len(f.Files) > 0 && len(f.Maps) > 0:
		return errors.New("maps and recordings are of different times: read them one after the other")
	case f.Process != "":
		for _, m := range f.Maps {
			if m.Name == "" {
				return errors.New("--process says whose maps are meant: it goes with name S, or alone")
			}
		}
	}
	return nil
}

// argument reads one of them.
func (f *Flags) argument(what, which string) (err error) {
	if what == "file" {
		f.Files = append(f.Files, which)
		return nil
	}
	var sel bpfmaps.Selector
	if which, sel.Fields, err = bpfmaps.ParseFields(which); err != nil {
		return err
	}
	switch what {
	case "id":
		sel.ID, err = bpfmaps.ParseID(which)
	case "name":
		sel.Name = which
	case "pinned":
		sel.Pin = which
	}
	f.Maps = append(f.Maps, sel)
	return err
}
