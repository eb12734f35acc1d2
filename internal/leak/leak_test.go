package leak

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

// leaks leaks something, and requires that Check finds it, and finds nothing after undo.
func leaks(t *testing.T, what string, leak func() (undo func())) {
	t.Helper()
	before := take()
	require.Empty(t, take().beyond(before))
	undo := leak()
	left := strings.Join(before.wait(0), "\n")
	require.Contains(t, left, what)
	var out strings.Builder
	require.Equal(t, 1, report(&out, []string{left}))
	require.Contains(t, out.String(), what)
	undo()
	require.Empty(t, before.wait(patience))
	require.Zero(t, report(&out, nil))
}

func leakedGoroutine(end <-chan struct{}) { <-end }

func TestGoroutine(t *testing.T) {
	leaks(t, "leak.leakedGoroutine", func() func() {
		end := make(chan struct{})
		go leakedGoroutine(end)
		return func() { close(end) }
	})
	leaks(t, "created by github.com/ringfold/ringfold/internal/leak.TestGoroutine", func() func() {
		end := make(chan struct{})
		go leakedGoroutine(end)
		return func() { close(end) }
	})
}

func TestFile(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc to look at: ", err)
	}
	leaks(t, "-> "+os.DevNull, func() func() {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		return func() { f.Close() }
	})
}

// Memory that the garbage collector cleans up is no leak.
func TestCollected(t *testing.T) {
	before := take()
	func() {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		runtime.KeepAlive(f)
	}()
	require.Empty(t, before.wait(patience))
}

// Some threads more are the runtime's own affair, a thread for each of many calls is not.
func TestThreads(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("no /proc to look at: ", err)
	}
	before := take().threads
	leaks(t, "threads: there were", func() func() {
		end := make(chan struct{})
		var all, locked sync.WaitGroup
		for range before + spareThreads() + 1 { // a thread each, of those that are idle too
			locked.Add(1)
			all.Go(func() {
				runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
				locked.Done()
				<-end
			})
		}
		locked.Wait()
		return func() { close(end); all.Wait() }
	})
}

// recorder is a test that only notes that it has failed.
type recorder struct {
	testing.TB
	failed   bool
	cleanups []func()
}

func (r *recorder) Helper()               {}
func (r *recorder) Failed() bool          { return r.failed }
func (r *recorder) Cleanup(f func())      { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestCheck(t *testing.T) {
	r := &recorder{TB: t}
	Check(r)
	end := make(chan struct{})
	go leakedGoroutine(end)
	go func() { // it goes away by itself, a little later
		time.Sleep(20 * time.Millisecond)
		close(end)
	}()
	for _, f := range r.cleanups {
		f()
	}
	require.False(t, r.failed)
}
