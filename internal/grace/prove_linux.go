package grace

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// errUnclear is the result of a proof that has shown nothing. Another try may.
var errUnclear = errors.New("not proved to wait for programs: none was seen running")

var errDoesNotWait = errors.New("does not wait: a program that was running had not ended after it")

const (
	// Sightings of running programs that the waits would have shown, had they not waited.
	enough    = 5
	mostProof = 400 * time.Millisecond // for a proof
	// Of the program, at first; a quarter more for each round that does not see it run.
	shortRun  = time.Millisecond / 2
	longRun   = 8 * time.Millisecond // at most: threads of a busy machine start late
	runPacket = 64                   // bytes of the program's packet
	unclear   = 20 * mostProof       // until a retry of a proof that has shown nothing
)

// A proof keeps the result of prove: for the life of the process, or for a while if it is
// errUnclear.
type proof struct {
	mu    sync.Mutex
	err   error
	until time.Time // of errUnclear
	done  bool
}

// get returns the result of prove, new or kept. So consecutive streams on a busy machine do not all
// wait for a proof.
func (p *proof) get(prove func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done || p.err == errUnclear && !time.Now().Before(p.until) {
		p.err, p.done = prove(), true
		p.until = time.Now().Add(unclear)
	}
	return p.err
}

// prove shows on this machine that a wait outlasts a running program. It starts a program of known
// length on its own thread. Once it sees that the program has begun and not ended, on another CPU
// or preempted on this one, the wait begins. When the wait returns, the program must have ended.
//
// A thread that gets no CPU sees programs end without any wait. So prove alternates with noWait,
// the same call without the wait. If r of s programs still ran after noWait, w waits that did not
// wait would have shown w*r/s programs running.
//
// prove returns nil once that is 5, errDoesNotWait as soon as a wait was too short, and errUnclear
// after 400 ms. It takes 7 ms on an idle machine.
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
