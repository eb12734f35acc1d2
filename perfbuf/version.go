package perfbuf

import (
	"runtime/debug"
	"strings"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/version"
)

// VersionInfo describes the versions that a program was built with and runs with. Unknown fields
// are empty.
type VersionInfo struct {
	// Version of this module, such as "v1.2.3"; "(devel)" or with a "+dirty" if built from its
	// repository
	Ringfold string

	// Of the libbpf that is in use, such as "v1.5" (libbpf_version_string); empty without cgo
	Libbpf  string
	Headers string // of the libbpf whose headers the program was built with
	Path    string // the file of the shared library; empty if there is none
	Static  bool   // the program links libbpf statically: build tag static_build
}

// Version returns the versions of ringfold and of the libbpf in use. It does not block.
func Version() VersionInfo {
	v := VersionInfo{Ringfold: version.Of(debug.ReadBuildInfo())}
	if l, err := libbpf.Version(); err == nil {
		v.Libbpf, v.Headers, v.Path, v.Static = l.Version, l.Headers, l.Path, l.Static
	}
	return v
}

// String returns a line for a program's -version, such as "ringfold v1.2.3, libbpf v1.5 (static)".
func (v VersionInfo) String() string {
	s := "ringfold " + v.Ringfold
	switch {
	case v.Libbpf == "":
		return s + ", without libbpf"
	case v.Static:
		return s + ", libbpf " + v.Libbpf + " (static)"
	}
	s += ", libbpf " + v.Libbpf
	var more []string
	if v.Path != "" {
		more = append(more, v.Path)
	}
	if v.Headers != v.Libbpf {
		more = append(more, "built with headers of "+v.Headers)
	}
	if len(more) > 0 {
		s += " (" + strings.Join(more, ", ") + ")"
	}
	return s
}
