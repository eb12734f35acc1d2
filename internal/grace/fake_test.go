package grace

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// fake is a provider whose Wait signals its begin, and ends when the test says so.
type fake struct {
	waiting chan struct{}
	end     chan error
	waits   atomic.Int32 // under way
	closed  atomic.Int32
	misuse  atomic.Bool // closed during a Wait, or used after Close
}

func newFake(t testing.TB) *fake {
	p := &fake{waiting: make(chan struct{}), end: make(chan error)}
	t.Cleanup(func() {
		require.False(t, p.misuse.Load(), "provider closed during a Wait, or used afterwards")
		require.Zero(t, p.waits.Load())
		require.LessOrEqual(t, p.closed.Load(), int32(1))
	})
	return p
}

func (p *fake) Name() string { return "fake" }

func (p *fake) Wait() error {
	p.waits.Add(1)
	if p.closed.Load() != 0 {
		p.misuse.Store(true)
	}
	p.waiting <- struct{}{}
	err := <-p.end
	p.waits.Add(-1)
	return err
}

func (p *fake) Close() error {
	if p.waits.Load() != 0 {
		p.misuse.Store(true)
	}
	p.closed.Add(1)
	return nil
}

// waitFunc is a provider made of a function.
type waitFunc func() error

func (waitFunc) Name() string  { return "waits" }
func (w waitFunc) Wait() error { return w() }
func (waitFunc) Close() error  { return nil }
