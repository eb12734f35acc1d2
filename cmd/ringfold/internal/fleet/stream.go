package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// streamConfig is the stream that agents publish to, as it is made if there is none.
type streamConfig struct {
	name     string
	maxAge   time.Duration
	maxBytes int64
	replicas int
}

const streamUsage = `The stream, which is made if there is none, and left as it is otherwise:

  -stream NAME   of JetStream (default EVENTS); hosts publish to NAME.HOST
  -max-age D     how long batches are kept (default 24h), 2m at least
  -max-bytes N   and how much of them (default 1073741824): then the oldest are dropped
  -replicas N    on how many servers of a cluster (default 1)
`

func (c *streamConfig) flags(f *flag.FlagSet) {
	f.StringVar(&c.name, "stream", "EVENTS", "")
	f.DurationVar(&c.maxAge, "max-age", 24*time.Hour, "")
	f.Int64Var(&c.maxBytes, "max-bytes", 1<<30, "")
	f.IntVar(&c.replicas, "replicas", 1, "")
}

// duplicates is for how long the stream drops a batch that it has already. Who reads finds others by their sequence numbers.
const duplicates = 2 * time.Minute

func (c streamConfig) check() error {
	if c.maxAge < duplicates || c.maxBytes <= 0 || c.replicas < 1 {
		return wrong("-max-age must be %v at least, -max-bytes and -replicas positive", duplicates)
	}
	return nil
}

// ensure makes the stream if there is none. It tries until that is so, or ctx ends, or it is told that it cannot be.
func (c streamConfig) ensure(ctx context.Context, nc *nats.Conn, note func(string)) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for said := ""; ; {
		err := nats.ErrDisconnected
		if nc.IsConnected() {
			err = c.try(ctx, js)
		}
		var api *jetstream.APIError
		switch {
		case err == nil || ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &api) && api.Code < 500 || errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("making stream %s: %w", c.name, err)
		case nc.IsConnected() && err.Error() != said: // else connecting has been told of
			said = err.Error()
			note(fmt.Sprintf("making stream %s: %v: trying on", c.name, err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c streamConfig) try(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := js.Stream(ctx, c.name); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: c.name, Description: "process events of hosts: github.com/ringfold/ringfold/cmd/ringfold/internal/fleet", Subjects: []string{c.name + ".>"},
		Storage: jetstream.FileStorage, MaxAge: c.maxAge, MaxBytes: c.maxBytes, Replicas: c.replicas, Duplicates: duplicates,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil // another agent's, a moment ago
	}
	return err
}
