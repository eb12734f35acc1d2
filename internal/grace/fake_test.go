package grace_test

import (
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/stretchr/testify/require"
)

// fake is a provider whose every Wait tells when it has begun, and ends when told how.
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

// fakeClock is a clock that a test sets.
type fakeClock struct{ now atomic.Uint64 }

func (c *fakeClock) read() uint64 { return c.now.Load() }

// waiter is a provider made of a function.
type waiter func() error

func (waiter) Name() string  { return "func" }
func (w waiter) Wait() error { return w() }
func (waiter) Close() error  { return nil }

var _ grace.Provider = waiter(nil)
