package perfbuf

import (
	"context"
	"fmt"
)

// Flush asks for everything that the rings hold now, without waiting for the wakeup policy: a
// blocked Wait returns, and the next pass delivers it, followed by an event of [KindFlushed]. In
// order the marker comes when all events up to the time of the call are due and delivered: see
// [Stream.Watermark]. One marker answers all earlier calls. [Stream.ForEachPending] delivers
// everything in any case, and leaves an unproven marker to the next pass.
//
// It does not block, and may be called from anywhere at any time. It returns os.ErrClosed once the
// stream or a reader of it is closed.
func (s *Stream) Flush() error { return s.in.Flush() }

// Pause takes the rings out of the map: outputs fail with -ENOENT until Resume, which the kernel
// does not count as lost. You can still read the events in the rings. Running programs may still
// finish an output: [Stream.Drain] waits for them. Pause does not block, may be called at any time
// from anywhere, and does nothing if the Reader is paused already. After Close it returns
// [os.ErrClosed].
//
// It calls bpf_map_delete_elem for each CPU, except, from Linux 5.10 on, where a newer reader owns
// the entry. If a call fails, because the process dropped privileges since Open or the map is
// frozen (BPF_MAP_FREEZE), the error says why, and some rings are still in the map. Call Pause
// again to retry those: it returns nil only once none is left. Resume puts the others back.
//
// A BPF ring buffer cannot be paused: Pause returns an error that wraps [errors.ErrUnsupported].
func (r *Reader) Pause() error { return r.in.Pause() }

// Resume puts the rings back into the map after [Reader.Pause], and replaces entries of other
// readers. It does nothing if the Reader is not paused. If it cannot set an entry, the error says
// why; call Resume again to retry. After Close it returns [os.ErrClosed].
func (r *Reader) Resume() error { return r.in.Resume() }

// Shutdown ends reading without losing events. It takes the rings of all readers of the stream out
// of their maps as [Reader.Pause] does, waits until running programs have ended, delivers all
// events that the rings hold, and closes the stream and the readers. In order, none of these events
// is late in exact mode. It blocks for an RCU grace period, usually some ms, and for as long as f
// takes. Programs may stay attached.
//
// Errors are those of Pause and [Stream.Drain], and [ErrBusy] while another goroutine reads (end
// its Run first). The readers are then still open, and paused, unless Pause failed. After an error
// of f, and after [ErrDisplaced], they are closed. If the stream is closed already, Shutdown
// returns os.ErrClosed and leaves the readers open; they stay paused if it was closed during the
// call.
//
// A stream of one ring cannot be shut down without the others: pause the reader, drain each stream,
// and close the reader.
func (s *Stream) Shutdown(ctx context.Context, f func(Event) error) error {
	end, err := s.in.Shutdown(ctx)
	if err != nil {
		return err
	}
	defer end()
	return s.forEach(nil, f)
}

// Shed makes programs shed all outputs in lanes below this one, from the next output on, whatever
// room rings have: back-pressure of a user who cannot keep up. 0 ends that. What is shed arrives
// as events of [KindShed], with the events that still come. It does not block, and may be called
// from anywhere. It fails if Options.LanesFD names no map with so many lanes.
func (r *Reader) Shed(below int) error {
	if s := r.in.Parts.Shedder; s == nil || !s.Shed(below) {
		return fmt.Errorf("perfbuf: Shed(%d): the reader has fewer lanes: see Options.LanesFD", below)
	}
	return nil
}
