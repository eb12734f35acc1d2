package source

import (
	"fmt"
	"os/exec"
	"slices"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/internal/newfile"
)

// Ready reports what would keep the command from its work apart from its maps: a file that it cannot
// write, or that it reads too, a recording that is named twice, a command to run that does not exist.
// Choose calls it.
func (f *Flags) Ready() error {
	for i, file := range f.Files {
		for _, before := range f.Files[:i] {
			if newfile.Same(file, before) {
				return fmt.Errorf("%s and %s are one recording: name it once", before, file)
			}
		}
	}
	reads, writes := slices.Clone(f.Files), slices.Clone(f.Writes)
	if f.BTF != "" {
		reads = append(reads, f.BTF)
	}
	for i, path := range writes {
		if path == "-" {
			writes[i] = "/dev/stdout"
		}
		if err := newfile.Clash(writes[i], reads, writes[:i]); err != nil {
			return err
		}
	}
	for _, path := range f.Writes {
		if path == "-" {
			continue
		}
		if err := newfile.Check(path); err != nil {
			return err
		}
		if terminal(path) {
			return fmt.Errorf("%s is a terminal: name a file", path)
		}
	}
	if len(f.Command) > 0 {
		if _, err := exec.LookPath(f.Command[0]); err != nil {
			return fmt.Errorf("running %s: %w", f.Command[0], err)
		}
	}
	return nil
}

func terminal(path string) bool {
	if !newfile.Special(path) {
		return false
	}
	f, err := newfile.Create(path) // opens it
	if err != nil {
		return false
	}
	defer f.Close()
	return cli.Terminal(f.File) != nil
}
