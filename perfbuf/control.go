package perfbuf

import (
	"context"
	"errors"
	"os"

	"github.com/ringfold/ringfold/internal/reader"
)

// Flush asks for everything that the rings hold now, without waiting for the wakeup policy: a
// blocked Wait returns, and the next pass over the Reader or over its [Stream] delivers it,
// followed by an event of [KindFlushed]. In a stream the marker comes when all events up to the
// time of the call are due and delivered: see [Stream.Watermark]. One marker answers all calls
// that it follows. [Stream.ForEachPending] delivers everything in any case, and leaves a marker
// that is not proven to the next pass.
//
// For each ring that holds something, [Ring.Wait] returns too: one that is blocked, or else the next. Passes
// over single rings deliver no markers, and leave [Reader.Wait] returning at once.
//
// It does not block, and may be called from anywhere at any time. It returns os.ErrClosed after Close.
func (r *Reader) Flush() error { return r.in.Flush() }

// Flush is [Reader.Flush] of all sources together, those to come included. It returns os.ErrClosed once the stream or a source is closed.
func (s *Stream) Flush() error { return s.in.Flush() }

// Pause takes the rings out of the map: outputs fail with -ENOENT until Resume, which the kernel
// does not count as lost. You can still read what the rings hold. Running programs may still finish
// an output: [Reader.Drain] waits for them. Pause does not block, may be called at any time from
// anywhere, and does nothing if the Reader is paused already. After Close it returns
// [os.ErrClosed].
//
// It calls bpf_map_delete_elem for each CPU, but from Linux 5.10 on not for those whose entry a newer
// reader has. If a call fails, because the process dropped privileges since Open or the map is frozen
// (BPF_MAP_FREEZE), the error says why, and some rings are still in the map. Call Pause again to
// retry those: it returns nil only once none is left. Resume puts the others back.
//
// A BPF ring buffer cannot be paused: Pause returns an error that wraps [errors.ErrUnsupported].
func (r *Reader) Pause() error { return r.in.Pause() }

// Resume puts the rings back into the map after [Reader.Pause], and replaces those of other readers. It does nothing if the Reader is not paused. If it cannot set an entry, the error
// says why; call Resume again to retry. After Close it returns [os.ErrClosed].
func (r *Reader) Resume() error { return r.in.Resume() }

// Pause is [Reader.Pause] of all sources of the stream. If it fails for one, the others are paused all the same.
func (s *Stream) Pause() error { return s.forSources((*reader.Reader).Pause) }

// Resume is [Reader.Resume] of all sources of the stream.
func (s *Stream) Resume() error { return s.forSources((*reader.Reader).Resume) }

func (s *Stream) forSources(do func(*reader.Reader) error) (err error) {
	for _, r := range s.in.Readers() {
		err = errors.Join(err, do(r))
	}
	return err
}

// Shutdown ends reading without losing events. It takes the rings out of the map as [Reader.Pause]
// does, waits until running programs have ended, calls f for all events that the rings hold, and
// closes the Reader. It blocks for an RCU grace period, usually some ms, and for as long as f
// takes. Programs may stay attached.
//
// Errors are those of Pause and [Reader.Drain], and [ErrBusy] while another goroutine reads (end
// its Run first). The Reader is then still open, and paused, unless Pause failed. After an error of
// f, and after [ErrDisplaced], it is closed.
func (r *Reader) Shutdown(ctx context.Context, f func(Event) error) error {
	begin := func(uint64) (*Batch, error) { return r.begin() }
	return shutdown(ctx, func() error { return pauseIfItCan(&r.in) }, r.in.Quiesce, begin, r.in.Close, f)
}

// Shutdown is [Reader.Shutdown] for a stream: what the rings hold comes in order, and none of it is
// late in exact mode. It closes the stream and the readers that are its sources. If the stream is
// closed already, it returns os.ErrClosed and leaves the readers open; they stay paused if the stream
// was closed during the call.
func (s *Stream) Shutdown(ctx context.Context, f func(Event) error) error {
	if s.in.Closing() {
		return os.ErrClosed
	}
	readers := s.in.Readers()
	return shutdown(ctx, func() error { return s.forSources(pauseIfItCan) }, s.in.Quiesce, s.beginAll, func() {
		for _, r := range readers {
			r.Close()
		}
		s.in.Close()
	}, f)
}

// pauseIfItCan is Pause, but nothing for a BPF ring buffer.
func pauseIfItCan(r *reader.Reader) error {
	if err := r.Pause(); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

func shutdown(ctx context.Context, pause func() error, quiesce func(context.Context) (uint64, error), begin func(waited uint64) (*Batch, error), end func(), f func(Event) error) error {
	if err := pause(); err != nil {
		return err
	}
	waited, err := quiesce(ctx)
	if err != nil {
		return err
	}
	batch, err := begin(waited)
	if err != nil {
		return err
	}
	p := &batch.pass
	defer func() {
		busy := errors.Is(p.Err, ErrBusy) // one of the rings
		p.End()
		if !busy {
			end()
		}
	}()
	return unlessStopped(each(context.Background(), p, f))
}
