package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// retry says how something is tried that may fail for a while.
type retry struct {
	what  string
	note  func(string)      // gets each new failure, and the success after it
	conn  *nats.Conn        // it needs a connection, whose loss Connect's handlers note; nil: it does not
	final func(error) error // what to say of an error that trying again does not mend, nil of others
}

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// do calls try until it succeeds, an error is final, or ctx is done. It waits longer each time.
func (r retry) do(ctx context.Context, try func() error) error {
	said := ""
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		connected, err := r.conn == nil || r.conn.IsConnected(), nats.ErrDisconnected
		if connected {
			err = try()
		}
		if err == nil {
			if said != "" {
				r.note(r.what + " again")
			}
			return nil
		}
		if r.final != nil {
			if final := r.final(err); final != nil {
				return final
			}
		}
		if text := fmt.Sprintf("%s: %v: trying on", r.what, err); connected && ctx.Err() == nil && text != said {
			said = text
			r.note(text)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}
