package version

import "strings"

// Info describes the versions that a program was built with and runs with. Unknown fields are
// empty.
type Info struct {
	Ringfold string
	Libbpf   string // in use; empty without cgo
	Headers  string // of the libbpf whose headers the program was built with
	Path     string // the file of the shared library; empty if there is none
	Static   bool   // the program links libbpf statically: build tag static_build
}

// String returns one line.
func (v Info) String() string {
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
