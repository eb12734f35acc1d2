package engine

import (
	"errors"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

var errTest = errors.New("of the test")

// fake is a Reader of rings on Go memory, and an unordered stream over them, which only waits.
type fake struct {
	Reader
	kernel *fakeKernel
	w      []*ringtest.Ring
	stream *Stream
	parts  []*source // the Reader, in the stream
}

// newFake makes a Reader of so many rings.
func newFake(rings int, o Options) *fake {
	f := &fake{kernel: &fakeKernel{refuses: -1}, stream: &Stream{}}
	for range rings {
		f.w = append(f.w, ringtest.New(64, raw.LayoutRawTime, 0))
		f.kernel.entries = append(f.kernel.entries, kernel.Plain)
	}
	f.kernel.Still = ringtest.NewStill(nil, 0, f.w...)
	f.Init(f.kernel, o)
	f.parts = []*source{{reader: &f.Reader, stream: f.stream}}
	return f
}

// newBelled is newFake of two rings with a doorbell that looks every second.
func newBelled() *fake { return newFake(2, Options{Bell: true, Poll: time.Second, Enough: 64}) }

// hold makes a ring hold so many unread bytes.
func (f *fake) hold(ring int, bytes uint64) {
	f.w[ring].SetHead(f.w[ring].Tail() + bytes)
	f.w[ring].Publish()
}

// fakeKernel is a kernel whose rings are entries of a map.
type fakeKernel struct {
	*ringtest.Still
	entries []kernel.Entry
	refuses int // the entry that cannot be set; -1: none
	dozes   bool
	dozed   atomic.Int32

	before      func() // called before the next Wait
	interrupted func() // called after each
}

func (k *fakeKernel) Bells() error  { return nil }
func (k *fakeKernel) Replaced() int { return 0 }

func (k *fakeKernel) Set(ring int, to kernel.Entry) error {
	if ring == k.refuses {
		return errTest
	}
	k.entries[ring] = to
	return nil
}

func (k *fakeKernel) Wait(until time.Time, ready func(bool) bool) error {
	if f := k.before; f != nil {
		k.before = nil
		f()
	}
	return k.Still.Wait(until, ready)
}

// Doze dozes if the test says so.
func (k *fakeKernel) Doze(ready func(bool) bool) (woken bool, err error) {
	k.dozed.Add(1)
	if k.dozes {
		err = k.Wait(time.Time{}, func(by bool) bool { woken = by; return woken || ready(false) })
	}
	return woken && err == nil, err
}

func (k *fakeKernel) Sleep(until time.Time, awake func() bool) error {
	return k.Still.Wait(until, func(bool) bool { return awake() })
}

func (k *fakeKernel) Interrupt() {
	k.Still.Interrupt()
	if k.interrupted != nil {
		k.interrupted()
	}
}

func inBackground(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	synctest.Wait()
	return done
}
