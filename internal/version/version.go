// Package version finds out which version of this module a program was built from.
package version

import "runtime/debug"

const modulePath = "github.com/ringfold/ringfold"

// Of finds this module's version, given the results of debug.ReadBuildInfo. It is "(devel)" in a
// test, or if a directory replaces the module.
func Of(b *debug.BuildInfo, ok bool) string {
	if !ok {
		return "(unknown version)"
	}
	version := b.Main.Version
	if b.Main.Path != modulePath {
		version = ""
		for _, m := range b.Deps {
			if m.Path != modulePath {
				continue
			}
			version = m.Version
			if m.Replace != nil {
				version = m.Replace.Version // of a directory it has none
			}
		}
	}
	if version == "" {
		return "(devel)" // a test, or with a replace directive
	}
	return version
}
