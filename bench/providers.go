package main

import (
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/perfbuf"
)

// provider is one of the library's ways to wait for a grace period.
type provider struct {
	name  string               // as results have it
	order perfbuf.OrderOptions // of a stream that uses it alone
	grace grace.Options        // of a barrier that does

	interval time.Duration // between barriers, by default
}

// providers are those that work here.
func providers() (all []provider) {
	p, err := grace.Open(grace.Options{})
	if err != nil {
		return nil
	}
	defer p.Close()
	return append(all, provider{name: "ringfold-" + p.Name(), interval: time.Millisecond})
}
