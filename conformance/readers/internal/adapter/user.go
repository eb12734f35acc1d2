package adapter

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/conformance/wire"
)

// User is who reads: what is done with events, with losses and with errors. Its methods may be called at the same time.
type User struct {
	Out    *wire.Writer
	slow   atomic.Int64 // µs
	keep   atomic.Bool
	close  atomic.Bool
	closed chan struct{}

	mu   sync.Mutex
	kept *wire.Frame
}

func newUser() *User { return &User{Out: wire.NewWriter(os.Stdout), closed: make(chan struct{})} }

// Event takes an event, whose payload is the user's to keep. If it returns true, the caller is to close the reader, and then to
// call Closed.
func (u *User) Event(source, cpu int, payload []byte) (closeNow bool) {
	f := wire.Frame{Type: wire.Event, Source: source, CPU: cpu, Data: payload}
	if u.Keeps() {
		u.Keep(f)
	}
	return u.Deliver(f)
}

// Keeps says whether the next event is to be kept.
func (u *User) Keeps() bool { return u.keep.CompareAndSwap(true, false) }

// Keep keeps an event, whose payload is the user's.
func (u *User) Keep(f wire.Frame) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept = &f
}

// Deliver is Event of one that need not be kept: its payload is a view, perhaps.
func (u *User) Deliver(f wire.Frame) (closeNow bool) {
	u.Out.Write(f) // without the suite there is nobody to tell of errors
	if slow := u.slow.Load(); slow > 0 {
		time.Sleep(time.Duration(slow) * time.Microsecond)
	}
	return u.close.CompareAndSwap(true, false)
}

// Closed ends the command that had Event return true.
func (u *User) Closed() { u.closed <- struct{}{} }

// Lost takes a report of losses.
func (u *User) Lost(source, cpu int, count uint64) { u.Out.Losses(source, cpu, 0, count) }

// Error takes what the library reports.
func (u *User) Error(err error) { u.Out.Text(wire.Error, err.Error()) }

// Damaged takes a report that a ring makes no sense.
func (u *User) Damaged(source int, err error) {
	u.Out.Write(wire.Frame{Type: wire.Damaged, Source: source, CPU: -1, Data: []byte(err.Error())})
	u.Out.Flush()
}

// do carries out the commands that are the same for all readers.
func (u *User) do(command string, n int) (err error, own bool) {
	switch command {
	case "slow":
		u.slow.Store(int64(n))
	case "keep":
		u.keep.Store(true)
	case "kept":
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.kept == nil {
			return errors.New("no event was kept"), true
		}
		return u.Out.Write(*u.kept), true
	case "allocations":
		return u.Out.Allocations(), true
	case "closein":
		u.close.Store(true)
		<-u.closed
	default:
		return nil, false
	}
	return nil, true
}

// answer sends what became of a command.
func (u *User) answer(err error, good wire.Type, text string) (ok bool) {
	var cannot Cannot
	switch {
	case err == nil:
		u.Out.Text(good, text)
	case errors.As(err, &cannot):
		u.Out.Text(wire.Cannot, string(cannot))
	default:
		u.Out.Text(wire.Error, err.Error())
	}
	return err == nil
}
