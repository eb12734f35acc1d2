package host

import (
	"os"
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
	ready    func(woken bool) bool
	question chan bool // woken
	answer   chan bool
	result   chan error
}

func (b bell) poller(t *testing.T) *asked {
	p, err := NewPoller(b.epoll)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	a := &asked{p: p, question: make(chan bool), answer: make(chan bool), result: make(chan error, 1)}
	a.ready = func(woken bool) bool { a.question <- woken; return <-a.answer }
	return a
}

func (a *asked) wait(deadline time.Time) { go func() { a.result <- a.p.Wait(deadline, a.ready) }() }

func TestFilePollerAsksBeforeItBlocks(t *testing.T) {
	a := newBell(t).poller(t)
	for range 2 {
		a.wait(time.Time{})
		require.False(t, <-a.question, "not woken yet")
		a.answer <- true
		require.NoError(t, <-a.result)
	}
}

func TestFilePollerAsksAfterEachWakeUp(t *testing.T) {
	b := newBell(t)
	a := b.poller(t)
	a.wait(time.Time{})
	require.False(t, <-a.question)
	a.answer <- false
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
}

// A wakeup while ready looks at the heads must not be lost.
func TestFilePollerRemembersAWakeUpDuringTheQuestion(t *testing.T) {
	b := newBell(t)
	a := b.poller(t)
	a.wait(time.Time{})
	require.False(t, <-a.question)
	b.ring()
	a.answer <- false
	require.True(t, <-a.question)
	a.answer <- true
	require.NoError(t, <-a.result)
}

func TestFilePollerEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*Poller)
		want error
	}{
		"interrupt": {(*Poller).Interrupt, os.ErrDeadlineExceeded},
		"close":     {(*Poller).Close, os.ErrClosed},
	} {
		a := newBell(t).poller(t)
		a.wait(time.Time{})
		require.False(t, <-a.question)
		a.answer <- false
		c.end(a.p)
		require.ErrorIs(t, <-a.result, c.want, name)
	}
	a := newBell(t).poller(t)
	require.ErrorIs(t, a.p.Wait(time.Unix(1, 0), a.ready), os.ErrDeadlineExceeded)
	a.p.Close()
	require.Equal(t, os.ErrClosed, a.p.Wait(time.Time{}, a.ready))
}

// The poller has its own descriptor: libbpf closes the original.
func TestFilePollerDuplicatesItsDescriptor(t *testing.T) {
	b := newBell(t)
	a := b.poller(t)
	spare, err := unix.FcntlInt(uintptr(b.epoll), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	p, err := NewPoller(spare)
	require.NoError(t, err)
	p.Close()
	_, err = unix.FcntlInt(uintptr(spare), unix.F_GETFD, 0)
	require.NoError(t, err, "closed what is not its own")
	require.NoError(t, unix.Close(spare))
	a.p.Close()

	_, err = NewPoller(-1)
	require.ErrorIs(t, err, unix.EBADF)
	plain, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer plain.Close()
	_, err = NewPoller(int(plain.Fd()))
	require.ErrorContains(t, err, "runtime poller")
}
