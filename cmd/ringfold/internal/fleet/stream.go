package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// duplicates is for how long the stream drops a message that it has already. Readers find later ones by
// their sequence numbers.
const duplicates = 2 * time.Minute

// ensure makes the stream if there is none. It tries until that is so, ctx ends, or the server
// refuses.
func ensure(ctx context.Context, js jetstream.JetStream, name string, o SinkOptions) error {
	refused := func(err error) error {
		var api *jetstream.APIError
		if errors.As(err, &api) && api.Code < 500 || errors.Is(err, jetstream.ErrInvalidStreamName) {
			return fmt.Errorf("making stream %s: %w", name, err)
		}
		return nil
	}
	return retry{what: "reaching stream " + name, note: o.Note, conn: js.Conn(), final: refused}.do(ctx, func() error {
		if _, err := js.Stream(ctx, name); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Description: "recordings of hosts, by ringfold", Subjects: []string{name + ".>"},
			Storage: jetstream.FileStorage, MaxAge: o.MaxAge, MaxBytes: int64(o.MaxBytes), Replicas: o.Replicas, Duplicates: duplicates,
			Compression: jetstream.S2Compression, // payloads have many zeros
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil // another host made it a moment ago
		}
		return err
	})
}
