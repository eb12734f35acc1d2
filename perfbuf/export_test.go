package perfbuf

import (
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// Copied reports whether a sample was copied out of its ring, because it wraps around the edge.
func (e Event) Copied(r *Reader) bool {
	return !slices.ContainsFunc(r.all(), func(ring *Ring) bool { return ring.raw.View() == e.ev.View })
}

// Reopen acts on ring i as if its CPU had come back online.
func (r *Reader) Reopen(i int) error { return r.in.Hotplug.Reopen(i) }

// Replug acts as if a CPU had come online.
func (r *Reader) Replug() error { return r.in.Hotplug.Replug() }

// StreamOf returns the unordered Stream of a Reader or a Ring. It is opened at the first call, and
// again after its Close. Others that StreamOf has opened, and that hold the same rings, are closed.
func StreamOf(t testing.TB, of any) *Stream {
	t.Helper()
	if s, ok := streams.Load(of); ok && !s.(*Stream).in.Closing() {
		return s.(*Stream)
	}
	var s *Stream
	var err error
	switch of := of.(type) {
	case *Ring:
		CloseStreamsOf(of.reader, false)
		s, err = of.Stream()
	case *Reader:
		CloseStreamsOf(of, true)
		s, err = of.Stream(StreamOptions{Order: Unordered()})
	}
	if err == os.ErrClosed {
		return closed
	}
	require.NoError(t, err)
	if _, again := streams.Swap(of, s); !again {
		t.Cleanup(func() { streams.Delete(of) })
	}
	return s
}

// CloseStreamsOf closes what StreamOf has opened over all rings of a reader, and, if wanted, over
// each.
func CloseStreamsOf(r *Reader, rings bool) {
	of := []any{r}
	for _, ring := range r.all() {
		of = append(of, ring)
	}
	for i := range of {
		if s, ok := streams.Load(of[i]); ok && (i == 0 || rings) {
			s.(*Stream).Close()
		}
	}
}

var streams sync.Map

// closed is what StreamOf returns of a reader that is closed.
var closed = func() *Stream {
	r := newReader(ringtest.NewStill(nil, 0, ringtest.New(4096, raw.LayoutRawTime, 0)), Options{Wakeup: Wakeup{Events: 1}}, false)
	s, err := r.Stream(StreamOptions{Order: Unordered()})
	if err != nil {
		panic(err)
	}
	r.Close()
	return s
}()
