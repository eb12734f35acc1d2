package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	ours := func(version string, replace *debug.Module) *debug.Module {
		return &debug.Module{Path: modulePath, Version: version, Replace: replace}
	}
	program := debug.Module{Path: "example.com/p", Version: "v9.9.9"}
	other := &debug.Module{Path: "example.com/q", Version: "v8.8.8"}
	for name, c := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"of a program":       {debug.BuildInfo{Main: program, Deps: []*debug.Module{other, ours("v1.2.3", nil)}}, "v1.2.3"},
		"a fork":             {debug.BuildInfo{Main: program, Deps: []*debug.Module{ours("v1.2.3", &debug.Module{Path: "fork", Version: "v1.2.4"})}}, "v1.2.4"},
		"a directory":        {debug.BuildInfo{Main: program, Deps: []*debug.Module{ours("v1.2.3", &debug.Module{Path: "../ringfold"})}}, "(devel)"},
		"our own program":    {debug.BuildInfo{Main: *ours("v1.2.4-0.20260101000000-abcdef123456+dirty", nil)}, "v1.2.4-0.20260101000000-abcdef123456+dirty"},
		"built by itself":    {debug.BuildInfo{Main: *ours("(devel)", nil)}, "(devel)"},
		"a test of ours":     {debug.BuildInfo{Main: *ours("", nil)}, "(devel)"},
		"not in the program": {debug.BuildInfo{Main: program}, "(devel)"},
	} {
		require.Equal(t, c.want, Of(&c.info, true), name)
	}
	require.Equal(t, "(unknown version)", Of(nil, false))
}

func TestInfo(t *testing.T) {
	for want, v := range map[string]Info{
		"ringfold v1.2.3, without libbpf":                                       {Ringfold: "v1.2.3"},
		"ringfold v1.2.3, libbpf v1.5 (static)":                                 {Ringfold: "v1.2.3", Libbpf: "v1.5", Headers: "v1.5", Static: true},
		"ringfold v1.2.3, libbpf v1.5":                                          {Ringfold: "v1.2.3", Libbpf: "v1.5", Headers: "v1.5"},
		"ringfold (devel), libbpf v1.5 (/lib/libbpf.so.1)":                      {Ringfold: "(devel)", Libbpf: "v1.5", Headers: "v1.5", Path: "/lib/libbpf.so.1"},
		"ringfold (devel), libbpf v1.5 (/lib/l.so, built with headers of v1.1)": {Ringfold: "(devel)", Libbpf: "v1.5", Headers: "v1.1", Path: "/lib/l.so"},
		"ringfold (devel), libbpf v1.5 (built with headers of v1.1)":            {Ringfold: "(devel)", Libbpf: "v1.5", Headers: "v1.1"},
	} {
		require.Equal(t, want, v.String())
	}
}
