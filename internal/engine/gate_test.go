package engine

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLastToLeaveFinishes(t *testing.T) {
	for name, leave := range map[string]func(*Gate){"leave": (*Gate).Leave, "leave at once": (*Gate).LeaveAtOnce} {
		finished := 0
		var g Gate
		g.Open(func() { finished++ })
		require.NoError(t, g.Enter())
		g.retain()
		require.Equal(t, 3, g.Inside(), name)
		leave(&g)
		require.True(t, g.Close())
		require.True(t, g.Closed().Load())
		<-g.Done()
		require.False(t, g.Close(), "only the first closes")
		require.Equal(t, os.ErrClosed, g.Enter())
		leave(&g) // on behalf of Close
		select {
		case <-g.Final():
			t.Fatal("somebody is inside")
		default:
		}
		leave(&g)
		<-g.Final()
		require.Equal(t, 1, finished, name)
		require.Equal(t, os.ErrClosed, g.Enter())
	}
}

// No caller gets in once finish may run, and finish runs once.
func TestEnterAgainstClose(t *testing.T) {
	for range 200 {
		var g Gate
		var unmapped atomic.Bool
		g.Open(func() {
			if unmapped.Swap(true) {
				t.Error("finished twice")
			}
		})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for g.Enter() == nil {
					if unmapped.Load() {
						t.Error("inside, and the memory is gone")
					}
					g.Leave()
				}
			})
		}
		if g.Close() {
			g.Leave()
		}
		wg.Wait()
		<-g.Final()
	}
}
