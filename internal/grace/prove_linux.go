package grace

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// errUnclear is for a proof that has shown nothing: another time it may.
var errUnclear = errors.New("not proved to wait for programs: none was seen running")

var errDoesNotWait = errors.New("does not wait: a program that was running had not ended after it")

const (
	enough    = 5                      // programs that would have been seen to go on after the wait, had it not waited
	mostProof = 400 * time.Millisecond // until then
	shortRun  = time.Millisecond / 2   // of the program, at first. Each round in which it is not seen in the middle adds a quarter,
	longRun   = 8 * time.Millisecond   // up to here: threads of a busy machine start late
	runPacket = 64                     // bytes of the packet that the program is given
	unclear   = 20 * mostProof         // for so long, a proof that has shown nothing is not tried again
)

// A proof is what prove has found out: for the life of the process, unless it has shown nothing.
type proof struct {
	mu    sync.Mutex
	err   error
	until time.Time // of err, if that is errUnclear
	done  bool
}

// get returns what prove says, or has said. Streams that a busy machine makes one after the other do not all wait for a proof.
func (p *proof) get(prove func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done || p.err == errUnclear && !time.Now().Before(p.until) {
		p.err, p.done = prove(), true
		p.until = time.Now().Add(unclear)
	}
	return p.err
}

// prove shows on this machine that a wait outlasts a program that is under way. A program of known length is started on a
// thread of its own. Once it is seen to have begun and not to have ended, on another CPU or preempted on this one, the wait begins;
// when that returns, the program must have ended.
//
// A thread that is not given a CPU sees programs end without any wait. So noWait, the same without the wait, takes turns with it:
// if r of s programs still ran after noWait, w waits would have shown w*r/s of theirs running, had they not waited.
//
// prove returns nil once that is 5, errDoesNotWait as soon as a wait was too short, and errUnclear after 400 ms. It takes 7 ms on
// an idle machine.
func prove(wait, noWait func() error) error {
	t, err := newTrial()
	if err != nil {
		return fmt.Errorf("cannot be proved to wait for programs: that takes CAP_BPF: %w", err)
	}
	defer t.close()
	length, begin := shortRun, time.Now()
	var waited, ran, seen int
	for waited*ran < enough*seen || ran == 0 {
		if time.Since(begin) > mostProof {
			return errUnclear
		}
		without, err := t.round(noWait, length)
		if err != nil {
			return err
		}
		with, err := t.round(wait, length)
		if err != nil {
			return err
		}
		switch without {
		case running:
			ran++
			fallthrough
		case ended:
			seen++
		}
		switch with {
		case running:
			return errDoesNotWait
		case ended:
			waited++
		}
		if without != running {
			length = min(length+length/4, longRun)
		}
	}
	return nil
}
