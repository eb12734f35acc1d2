package perfbuf

import (
	"runtime/debug"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/version"
)

// Version returns a line for a program's -version, such as "ringfold v1.2.3, libbpf v1.5 (static)":
// the version of this module, "(devel)" if built from its repository, and that of the libbpf in use
// (libbpf_version_string). It does not block.
func Version() string {
	v := version.Info{Ringfold: version.Of(debug.ReadBuildInfo())}
	if l, err := libbpf.Version(); err == nil {
		v.Libbpf, v.Headers, v.Path, v.Static = l.Version, l.Headers, l.Path, l.Static
	}
	return v.String()
}
