package perfchan

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// noBarriers is a kernel in which each wait for programs fails.
type noBarriers struct{ *ringtest.Buffer }

func (k noBarriers) Open(s kernel.Setup) (kernel.Kernel, error) {
	_, err := k.Buffer.Open(s)
	return k, err
}

func (noBarriers) Grace(grace.Options) (grace.Provider, error) {
	return ringtest.Provider(func() error { return errors.New("refused") }), nil
}

// Where no order can be proved any more, events come all the same, and Err says so.
func TestNoBarriers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		k := ringtest.NewKernel(2, func(int) uint64 { return uint64(time.Since(begin) + time.Hour) })
		r, err := perfbuf.OpenSource(noBarriers{k.NewBuffer()}, perfbuf.Options{})
		require.NoError(t, err)
		s, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		events := make(chan []byte)
		b := &PerfBuffer{reader: r, stream: s, events: events, ended: make(chan struct{})}
		b.Poll(0)
		for i := range byte(5) {
			require.NoError(t, k.Output(int(i%2), []byte{i, 1, 2, 3}))
			require.Equal(t, i, (<-events)[0])
			require.ErrorIs(t, b.Err(), perfbuf.ErrBarriers)
		}
		b.Close()
		_, open := <-events
		require.False(t, open)
	})
}
