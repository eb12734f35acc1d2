package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/connect"
	"github.com/spf13/pflag"
)

// streamConfig is the stream that agents publish to, as it is made if there is none.
type streamConfig struct {
	name     string
	maxAge   time.Duration
	maxBytes cli.Size
	replicas int
}

func (c *streamConfig) flags(f *pflag.FlagSet) {
	c.maxBytes = 1 << 30
	cli.Group(f, "Stream", func(f *pflag.FlagSet) {
		f.StringVar(&c.name, "stream", "EVENTS", "`name` of the JetStream stream, created if there is none; hosts publish to NAME.HOST")
		f.DurationVar(&c.maxAge, "max-age", 24*time.Hour, "how long a new stream keeps batches, at least 2m")
		f.Var(&c.maxBytes, "max-bytes", "how much a new stream keeps; beyond this `size` it drops the oldest batches")
		f.IntVar(&c.replicas, "replicas", 1, "on how many servers of a cluster a new stream is kept")
	})
}

// duplicates is for how long the stream drops a batch that it has already. Tails find later ones by
// their sequence numbers.
const duplicates = 2 * time.Minute

func (c streamConfig) check() error {
	if c.maxAge < duplicates || c.maxBytes == 0 || c.replicas < 1 {
		return cli.Usagef("--max-age must be %v at least, --max-bytes and --replicas positive", duplicates)
	}
	return nil
}

// ensure makes the stream if there is none. It tries until that is so, ctx ends, or the server
// refuses.
func (c streamConfig) ensure(ctx context.Context, nc *nats.Conn, note func(string)) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	what := "making stream " + c.name
	refused := func(err error) error {
		var api *jetstream.APIError
		if errors.As(err, &api) && api.Code < 500 || errors.Is(err, jetstream.ErrInvalidStreamName) {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	return connect.Retry(ctx, nc, what, note, refused, func(ctx context.Context) error {
		if _, err := js.Stream(ctx, c.name); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name: c.name, Description: "process events of hosts: github.com/ringfold/ringfold/cmd/ringfold/internal/fleet", Subjects: []string{c.name + ".>"},
			Storage: jetstream.FileStorage, MaxAge: c.maxAge, MaxBytes: int64(c.maxBytes), Replicas: c.replicas, Duplicates: duplicates,
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil // another agent made it a moment ago
		}
		return err
	})
}
