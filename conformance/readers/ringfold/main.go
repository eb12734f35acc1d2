//go:build linux

// Command ringfold is ringfold's adapter for the conformance suite: see PROTOCOL.md. Without way=, it reads as most users would: Run,
// or an exact stream where order is asked for. The other ways are way=events, records, batches, fold, rings, exact, slack, channels.
package main

import (
	"fmt"
	"runtime/debug"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/conformance/readers/internal/adapter"
	"github.com/ringfold/ringfold/internal/version"
)

func main() {
	used, _ := libbpf.Version()
	adapter.Main("ringfold", fmt.Sprintf("%s,libbpf-%s", version.Of(debug.ReadBuildInfo()), used.Version), func(s adapter.Settings, u *adapter.User) adapter.Reader {
		if s.Way == "channels" {
			return &channels{settings: s, user: u}
		}
		return &readers{settings: s, user: u, flushed: make(chan struct{}, 1)}
	})
}
