package perfbuf

import "context"

// Drain is [Reader.ForEach] for the end. Detach your programs first. Drain waits until those that
// are still running have ended, and then calls f for all events that the rings hold. Losses that no
// record has reported are not among them, but in Stats, after Close. It blocks for an RCU grace
// period: usually some ms, 0.1 ms once a stream has found [BindMount] to work. Errors are those of
// ForEach, context.Cause(ctx), and the reason why it cannot wait.
func (r *Reader) Drain(ctx context.Context, f func(Event) error) error {
	if _, err := r.in.Quiesce(ctx); err != nil {
		return err
	}
	return r.ForEach(f)
}
