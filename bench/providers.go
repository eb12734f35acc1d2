package main

import (
	"sync"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/perfbuf"
)

// provider is one of the library's ways to wait for a grace period.
type provider struct {
	name  string // as results have it
	allow grace.Set
}

// barrierInterval is the default of StreamOptions.BarrierInterval.
const barrierInterval = time.Millisecond

// order are options of a stream that uses this one alone.
func (p provider) order() perfbuf.StreamOptions {
	return perfbuf.StreamOptions{Barriers: perfbuf.Barriers(p.allow)}
}

// providers are those that work here.
var providers = sync.OnceValue(func() (all []provider) {
	for one := grace.Set(1); one&grace.All != 0; one <<= 1 {
		if p, err := grace.Open(grace.Options{Allow: one}); err == nil {
			p.Close()
			all = append(all, provider{"ringfold-" + one.String(), one})
		}
	}
	return all
})
