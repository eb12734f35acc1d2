package host

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// bell is an eventfd inside an epoll descriptor, like the perf events in libbpf's.
type bell struct{ epoll, event int }

func newBell(t *testing.T) bell {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	require.NoError(t, err)
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(epoll); unix.Close(event) })
	// Edge-triggered: like perf_poll, it reports each wakeup once.
	require.NoError(t, unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(event)}))
	return bell{epoll, event}
}

func (b bell) ring() { unix.Write(b.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// asked passes a poller's questions to a test, and returns the answers.
type asked struct {
	p        *Poller
	how      way
	ready    func(woken bool) bool
	question chan bool // woken
	answer   chan bool
	result   chan error
}

// way says how a poller waits.
type way struct {
	calls bool // in system calls
	once  bool // on the descriptor itself
}

// ways runs a test with waits in Go's poller, and with waits in system calls, on the descriptor or
// on another that contains it.
func ways(t *testing.T, test func(t *testing.T, how way)) {
	t.Run("Go's poller", func(t *testing.T) { test(t, way{}) })
	t.Run("system calls", func(t *testing.T) { test(t, way{calls: true}) })
	t.Run("system calls, once", func(t *testing.T) { test(t, way{calls: true, once: true}) })
}

func (b bell) poller(t *testing.T, how way) *asked {
	p, err := NewPoller(b.epoll, how.once)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	a := &asked{p: p, how: how, question: make(chan bool), answer: make(chan bool), result: make(chan error, 1)}
	a.hurry()
	a.ready = func(woken bool) bool { a.question <- woken; return <-a.answer }
	return a
}

// hurry makes the next wait one of many, or not, however long ago the last one was on a busy
// machine.
func (a *asked) hurry() {
	a.p.calls.frequent, a.p.calls.began = 0, time.Now().Add(time.Hour)
	if a.how.calls {
		a.p.calls.frequent = frequent
	}
}

func (a *asked) wait(deadline time.Time) {
	a.hurry()
	go func() { a.result <- a.p.Wait(deadline, a.ready) }()
}

// blocks starts a Wait that has nothing to return for.
func (a *asked) blocks(t *testing.T, deadline time.Time) {
	t.Helper()
	a.wait(deadline)
	require.False(t, <-a.question)
	a.answer <- false
}

func TestPollerAsksBeforeItBlocks(t *testing.T) {
	ways(t, func(t *testing.T, how way) {
		a := newBell(t).poller(t, how)
		for range 2 {
			a.wait(time.Time{})
			require.False(t, <-a.question, "not woken yet")
			a.answer <- true
			require.NoError(t, <-a.result)
		}
	})
}

func TestPollerAsksAfterEachWakeUp(t *testing.T) {
	ways(t, func(t *testing.T, how way) {
		b := newBell(t)
		a := b.poller(t, how)
		a.blocks(t, time.Time{})
		require.Equal(t, !how.calls, a.p.parks, "it waits elsewhere")
		for _, enough := range []bool{false, false, true} {
			b.ring()
			require.True(t, <-a.question)
			a.answer <- enough
		}
		require.NoError(t, <-a.result)
		a.wait(time.Time{})
		require.False(t, <-a.question, "another wait begins anew")
		a.answer <- true
		require.NoError(t, <-a.result)
	})
}

// inCall reports whether the wait is in its system call, or just before it.
func (a *asked) inCall() bool {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	return a.p.blocking
}

// A wakeup while ready looks at the heads must not be lost.
func TestPollerRemembersAWakeUpDuringTheQuestion(t *testing.T) {
	ways(t, func(t *testing.T, how way) {
		b := newBell(t)
		a := b.poller(t, how)
		a.wait(time.Time{})
		require.False(t, <-a.question)
		b.ring()
		a.answer <- false
		require.True(t, <-a.question)
		a.answer <- true
		require.NoError(t, <-a.result)
	})
}

func TestPollerEnds(t *testing.T) {
	ways(t, func(t *testing.T, how way) {
		b := newBell(t)
		a := b.poller(t, how)
		a.wait(time.Time{})
		require.False(t, <-a.question)
		a.p.Interrupt() // before it blocks
		a.answer <- false
		require.ErrorIs(t, <-a.result, os.ErrDeadlineExceeded)

		a.wait(time.Time{})
		require.False(t, <-a.question)
		b.ring()
		a.answer <- false
		require.True(t, <-a.question, "an interrupt ends one wait only")
		a.answer <- true
		require.NoError(t, <-a.result)

		a.wait(time.Now().Add(time.Millisecond))
		select {
		case <-a.question:
			a.answer <- false
			require.ErrorIs(t, <-a.result, os.ErrDeadlineExceeded)
		case err := <-a.result: // on a busy machine
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		}
		require.ErrorIs(t, a.p.Wait(time.Unix(1, 0), a.ready), os.ErrDeadlineExceeded)

		a.blocks(t, time.Time{})
		for how.calls && !a.inCall() {
			runtime.Gosched()
		}
		a.p.Interrupt()
		require.ErrorIs(t, <-a.result, os.ErrDeadlineExceeded)
		a.p.Close()
		a.p.Interrupt()
		require.Equal(t, os.ErrClosed, a.p.Wait(time.Time{}, a.ready))
	})
}

// Each wakeup reaches the wait that comes next, however waits alternate.
func TestPollerAlternates(t *testing.T) {
	b := newBell(t)
	a := b.poller(t, way{once: true})
	for i := range 20 {
		a.how.calls = i/2%2 == 1
		a.blocks(t, time.Time{})
		b.ring()
		require.True(t, <-a.question, i)
		a.answer <- i%3 == 0
		if i%3 != 0 {
			b.ring()
			require.True(t, <-a.question, i)
			a.answer <- true
		}
		require.NoError(t, <-a.result)
		// Two that ask take perf wakeups from each other
		require.Equal(t, !a.how.calls, a.p.parks)
	}
}

// Waits are system calls where they are frequent.
func TestPollerSuits(t *testing.T) {
	var p sysPoller
	ago := func(d time.Duration) bool {
		p.began = time.Now().Add(-d)
		return p.suits(time.Time{})
	}
	for range 2 {
		require.False(t, ago(time.Hour))
		for range frequent - 1 {
			require.False(t, ago(-time.Hour)) // sooner than that, on any machine
		}
		require.True(t, ago(-time.Hour))
		p.began = time.Now().Add(time.Hour)
		require.False(t, p.suits(time.Unix(1, 0)), "the time is over")
	}
}

// A doze ends with the first wakeup, whatever that was for.
func TestPollerDozes(t *testing.T) {
	b := newBell(t)
	a := b.poller(t, way{once: true})
	inBackground := func() {
		go func() {
			woken, err := a.p.Doze(a.ready)
			a.question <- woken
			a.result <- err
		}()
		require.False(t, <-a.question, "not woken yet")
	}
	b.ring()
	inBackground()
	a.answer <- true
	require.False(t, <-a.question, "it does not block")
	require.NoError(t, <-a.result)

	for range 2 {
		inBackground()
		b.ring() // now, for the one above has not been reported yet
		a.answer <- false
		require.True(t, <-a.question)
		require.NoError(t, <-a.result)

		inBackground()
		a.p.Interrupt() // before it blocks
		a.answer <- false
		require.False(t, <-a.question)
		require.ErrorIs(t, <-a.result, os.ErrDeadlineExceeded)

		inBackground()
		a.answer <- false
		for !a.inCall() {
			runtime.Gosched()
		}
		a.p.Interrupt()
		require.False(t, <-a.question)
		require.ErrorIs(t, <-a.result, os.ErrDeadlineExceeded)

		a.blocks(t, time.Time{})
		a.p.Interrupt() // elsewhere
		require.ErrorIs(t, <-a.result, os.ErrDeadlineExceeded)
		require.True(t, a.p.parks)
		a.hurry()
		inBackground()
		require.False(t, a.p.parks, "two that ask take perf wakeups from each other")
		a.answer <- true
		require.False(t, <-a.question)
		require.NoError(t, <-a.result)
	}

	dozing.Add(mostDozing) // enough threads are blocked
	woken, err := a.p.Doze(nil)
	require.False(t, woken)
	require.NoError(t, err)
	require.Zero(t, dozing.Add(-mostDozing), "it has counted itself again")

	a.p.Close()
	_, err = a.p.Doze(a.ready)
	require.Equal(t, os.ErrClosed, err)
}

// What a doze has not taken does not end the next wait.
func TestPollerForgets(t *testing.T) {
	b := newBell(t)
	other, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(other)
	require.NoError(t, unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, other, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(other)}))
	b.ring()
	a := b.poller(t, way{once: true})
	woken, err := a.p.Doze(func(bool) bool { return false })
	require.NoError(t, err)
	require.True(t, woken)

	a.hurry()
	asked := make(chan bool, 2)
	go func() {
		a.result <- a.p.Wait(time.Time{}, func(woken bool) bool { asked <- woken; return woken })
	}()
	require.False(t, <-asked)
	left, err := unix.EpollWait(b.epoll, make([]unix.EpollEvent, 2), 0)
	require.NoError(t, err)
	require.Zero(t, left)
	a.p.Interrupt()
	require.ErrorIs(t, <-a.result, os.ErrDeadlineExceeded)
}

// Sleep ignores wakeups.
func TestPollerSleeps(t *testing.T) {
	ways(t, func(t *testing.T, how way) {
		b := newBell(t)
		a := b.poller(t, how)
		asked := 0
		require.ErrorIs(t, a.p.Sleep(time.Now().Add(5*time.Millisecond), func() bool {
			if asked++; asked < 5 {
				b.ring()
			}
			return false
		}), os.ErrDeadlineExceeded)
		require.NoError(t, a.p.Sleep(time.Time{}, func() bool { return true }))
	})
}

// Without epoll_pwait2, times are rounded up to milliseconds.
func TestPollerOnOldKernels(t *testing.T) {
	noPwait2.Store(true)
	defer noPwait2.Store(false)
	b := newBell(t)
	a := b.poller(t, way{calls: true})
	begin := time.Now()
	require.ErrorIs(t, a.p.Sleep(begin.Add(1500*time.Microsecond), func() bool { return false }), os.ErrDeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(begin), 1500*time.Microsecond)
	b.ring()
	require.NoError(t, a.p.Wait(time.Time{}, func(woken bool) bool { return woken }))
}

// The descriptor remains its owner's.
func TestPollerClosesItsOwn(t *testing.T) {
	b := newBell(t)
	p, err := NewPoller(b.epoll, true)
	require.NoError(t, err)
	p.Close()
	p.Close()
	_, err = unix.FcntlInt(uintptr(b.epoll), unix.F_GETFD, 0)
	require.NoError(t, err, "closed what is not its own")
	_, err = NewPoller(-1, true)
	require.ErrorIs(t, err, unix.EBADF)
}
