package perfbuf

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/stretchr/testify/require"
)

// fakePrograms is what runs on the CPUs of a fake, to be waited for. It is all providers in one.
type fakePrograms struct {
	opened  func() error // while a provider is opened, which waits once; nil: none run
	wait    func() error // a barrier's wait; nil: none run
	options grace.Options

	opens, closes, waits atomic.Int32
}

// open stands for grace.Open.
func (p *fakePrograms) open(o grace.Options) (grace.Provider, error) {
	if p == nil {
		return nil, os.ErrInvalid
	}
	p.options = o
	if p.opened != nil {
		if err := p.opened(); err != nil {
			return nil, err
		}
	}
	p.opens.Add(1)
	return p, nil
}

func (*fakePrograms) Name() string { return "fake" }

func (p *fakePrograms) Wait() error {
	p.waits.Add(1)
	if p.wait == nil {
		return nil
	}
	return p.wait()
}

func (p *fakePrograms) Close() error { p.closes.Add(1); return nil }

func (k *fake) kernelLost(ring int) (uint64, bool) {
	k.asked.Add(1)
	return k.w[ring].Lost(), k.counts
}

// stepped is an exact stream whose barriers the test makes itself, by calling Round.
func (k *fake) stepped(now uint64, o StreamOptions) (*Stream, *grace.Barrier) {
	k.t.Helper()
	k.clock.Store(now)
	if k.programs == nil {
		k.programs = &fakePrograms{}
	}
	var barrier *grace.Barrier
	k.hooks.drive = func(b *grace.Barrier) { barrier = b }
	s, err := k.Stream(o)
	require.NoError(k.t, err)
	return s, barrier
}

// account requires that all outputs of a ring that it took, or was too full for, are accounted for.
func (k *fake) account(t testing.TB, ring int, attempted uint64) {
	t.Helper()
	s := k.Stats().Rings[ring]
	require.Equal(t, attempted, s.Samples+s.Dropped+s.Lost,
		"%d delivered, %d dropped, %d lost", s.Samples, s.Dropped, s.Lost)
}
