package source

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// Close ends reading, gives the maps back, and makes the readers' Stats final. Later calls do nothing. It waits for a Run in another
// goroutine.
func (set *Set) Close() {
	if set.hosts != nil && set.hosts.reader != nil {
		set.hosts.reader.Stop() // no source comes any more
		defer set.hosts.conclude()
	}
	for _, s := range set.Sources {
		if s.Reader != nil {
			s.Reader.Close()
			<-s.Reader.Done()
		}
		if !s.Recorded() {
			s.Target.Close()
		}
	}
}

// Recorded reports whether it is one of recordings.
func (set *Set) Recorded() bool { return set.flags.recorded() }

// Elapsed is the time since Run began, or, of recordings, from the first event that matched to the last.
func (set *Set) Elapsed() time.Duration {
	if set.Recorded() {
		return time.Duration(set.latest - set.first)
	}
	return time.Since(set.began)
}

// Finish closes the set, which makes its counts final, and lets summary show them, unless Run has returned
// an error that says that some of what came is not there. It returns what failed.
func (set *Set) Finish(end error, summary func() error) error {
	if end != nil && !Incomplete(end) {
		return end
	}
	set.Close()
	if set.hosts != nil && set.hosts.err != nil {
		return set.hosts.err
	}
	return errors.Join(end, summary(), set.Untimed(), set.Unknown())
}

// Unknown says, after Close, what keeps a fleet's log from being known to be complete.
func (set *Set) Unknown() error {
	if set.hosts == nil || len(set.hosts.result.Unknown) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", cli.ErrIncomplete, strings.Join(set.hosts.result.Unknown, "; "))
}

// Untimed returns an error if samples had no time where time= says. They are there, in an order that is
// not by that time.
func (set *Set) Untimed() (err error) {
	for _, s := range set.Sources {
		n := s.Reader.Stats().Untimed
		if n == 0 {
			continue
		}
		instead := "the kernel's time"
		if s.RingBuf() {
			instead = "that of the event before"
		}
		err = errors.Join(err, fmt.Errorf("%s: %d events have no time at time=%d, as they are shorter, or one of another clock: %s was used, so their order is not proven",
			s, n, *s.TimeAt, instead))
	}
	return err
}
