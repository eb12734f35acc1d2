package suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Reader is an adapter to run.
type Reader struct {
	Name    string
	Path    string
	Args    []string // way=, if the name has one
	Version string
}

// Find finds an adapter: a path, or a name for an executable in dir. Of "NAME-WAY" it is NAME's, with way=WAY, unless there is one of
// that very name. It asks the adapter for its version.
func Find(name, dir string) (Reader, error) {
	r := Reader{Name: name, Path: name}
	if !strings.Contains(name, "/") {
		r.Path = filepath.Join(dir, name)
		if base, way, ok := strings.Cut(name, "-"); ok && !exists(r.Path) {
			r.Path, r.Args = filepath.Join(dir, base), []string{"way=" + way}
		}
	} else {
		r.Name = filepath.Base(name)
	}
	if !exists(r.Path) {
		return r, fmt.Errorf("there is no adapter %s: build it, or give a path to yours", r.Path)
	}
	path, err := filepath.Abs(r.Path)
	if err != nil {
		return r, err
	}
	r.Path = path
	out, err := exec.Command(r.Path, append([]string{"describe"}, r.Args...)...).Output()
	if err != nil {
		return r, fmt.Errorf("%s describe: %w", r.Path, err)
	}
	for field := range strings.FieldsSeq(string(out)) {
		if v, ok := strings.CutPrefix(field, "version="); ok {
			r.Version = v
		}
	}
	if !strings.HasPrefix(string(out), "reader=") || r.Version == "" {
		return r, fmt.Errorf("%s describe: want a line reader=NAME version=V, got %q", r.Path, out)
	}
	return r, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
