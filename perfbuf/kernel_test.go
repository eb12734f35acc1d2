package perfbuf_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func TestKernelSmoke(t *testing.T) {
	e := kerneltest.Load(t)
	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	for _, ring := range r.Rings() {
		e.Emit(ring.CPU(), 100, 56)
	}
	require.NoError(t, r.Wait(t.Context()))
	n, err := perfbuf.Fold(r, 0, func(n int, ev perfbuf.Event) int {
		p, err := kerneltest.Check(ev.Bytes())
		if err != nil || p.CPU != ev.CPU() {
			t.Error(p, ev.CPU(), err)
		}
		return n + 1
	})
	require.NoError(t, err)
	require.Equal(t, 200, n)
	t.Logf("%+v", r.Stats())
	s, err := r.Ordered(perfbuf.OrderOptions{})
	require.NoError(t, err)
	for i := 0; i < 10; i++ {
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 10, 56)
		}
	}
	last := uint64(0)
	for ev, err := range s.Events(t.Context()) {
		require.NoError(t, err)
		if ev.Time() < last {
			t.Error("order")
		}
		last = ev.Time()
		if n++; n == 400 {
			break
		}
	}
	t.Logf("%+v", r.Stats())
}
