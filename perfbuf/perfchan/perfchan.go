// Package perfchan sends the events of a BPF perf event array through a Go channel, in the order of
// their times over all CPUs. It is a drop-in for programs written for libbpfgo: replace the call of
// Module.InitPerfBuf by [InitPerfBuf], and keep your channels. BPF ring buffers have [InitRingBuf].
// The package does not import libbpfgo.
//
//	buffer, err := perfchan.InitPerfBuf(module, "events", events, lost, 64)
//	if err != nil {
//		return err
//	}
//	defer buffer.Close()
//	buffer.Poll(300)
//	for data := range events {
//		handle(data)
//	}
//
// A channel costs a copy, an allocation and a hand-over per event: package perfbuf reads events in
// place, with their CPU and time.
package perfchan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// PerfBuffer sends the events of a perf event array through Go channels, like libbpfgo's type of
// this name. See [InitPerfBuf]. Its methods may be called from several goroutines, including those
// that receive.
type PerfBuffer struct {
	reader *perfbuf.Reader
	stream *perfbuf.Stream
	events chan []byte
	lost   chan uint64 // may be nil

	mu    sync.Mutex    // guards stop
	stop  func()        // ends the goroutines; nil before Poll
	ended chan struct{} // closed when they have ended, and the channels are closed
	err   atomic.Pointer[error]
}

// interval is how long unordered events may wait to be sent, while they flow: with libbpfgo they do
// not wait.
const interval = time.Millisecond

const maxRingBytes = 1 << 30 // perfbuf's

// maps is a *libbpfgo.Module, or any type that has maps with file descriptors.
type maps[M interface{ FileDescriptor() int }] interface {
	GetMap(mapName string) (M, error)
}

// InitPerfBuf sets up a ring for each online CPU in the perf event array of that name, and returns
// a PerfBuffer that sends its events to a channel. It replaces libbpfgo's Module.InitPerfBuf:
// m.InitPerfBuf("events", events, lost, 64) becomes perfchan.InitPerfBuf(m, "events", events, lost,
// 64), and Poll, Start, Stop and Close stay. module is a *libbpfgo.Module, or any type that has
// maps with file descriptors.
//
// eventsChan gets the payload of each event, padding included (see [perfbuf.Event.Len]), in a slice
// of its own that the receiver may keep. Events of all CPUs come in the order of their times, which
// is exact: an event is sent once no older one can still come, usually a millisecond after its
// time. An order of perfbuf.Unordered() sends events as they lie in the rings, CPU by CPU, and
// sooner; libbpfgo does so too, but it reads each event as it comes, so its order is less wrong
// than that of a reader that polls. For perfbuf.Slack see [perfbuf.Order].
//
// lostChan gets the numbers of lost events, which add up to all (see [PerfBuffer.Stop]); if it is
// nil, only Stats counts them. Outputs land in the rings from now on; [PerfBuffer.Poll] starts
// sending them. While a receiver is slow, reading goes on until as many bytes wait as all rings
// hold.
//
// Each ring is pageCnt pages large, a power of two; in order, a record takes 8 bytes more there
// than libbpfgo's, for its time. Only rare events wake the reader, at most 1,000 a second and CPU;
// above that it polls every millisecond: see [perfbuf.Wakeup]. That saves traced programs nearly
// all that libbpfgo costs them, and takes two file descriptors per CPU. If only one can be had,
// the reader polls every 10 ms, and Stats().Doorbell.Err says why. For other policies use
// [perfbuf.Open] and [New].
//
// InitPerfBuf does not block, and fails as [perfbuf.Open] and [perfbuf.Reader.Stream] do. Call
// Close on the result: libbpfgo's Module.Close does not.
func InitPerfBuf[M interface{ FileDescriptor() int }](
	module maps[M], mapName string, eventsChan chan []byte, lostChan chan uint64, pageCnt int, order ...perfbuf.Order,
) (*PerfBuffer, error) {
	page := os.Getpagesize()
	b, err := open(module, mapName, eventsChan, lostChan, order, func(fd int, o perfbuf.Order) (*perfbuf.Reader, error) {
		if pageCnt < 1 || pageCnt&(pageCnt-1) != 0 || pageCnt > maxRingBytes/page {
			return nil, fmt.Errorf("pageCnt is %d: pass a power of two, of at most %d", pageCnt, maxRingBytes/page)
		}
		return perfbuf.Open(fd, perfbuf.Options{
			RingBytes: pageCnt * page, NoTime: o == perfbuf.Unordered(), Wakeup: perfbuf.Wakeup{PollInterval: interval},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("perfchan.InitPerfBuf: map %q: %w", mapName, err)
	}
	return b, nil
}

// New returns a PerfBuffer that sends the events of a reader to a channel, as [InitPerfBuf] does,
// which has no arguments for options such as a [perfbuf.PayloadTime]. From then on the PerfBuffer
// closes the reader. New blocks and fails as [perfbuf.Reader.Stream] does, and fails without a
// channel for events; the reader is then unchanged.
func New(r *perfbuf.Reader, o perfbuf.StreamOptions, eventsChan chan []byte, lostChan chan uint64) (*PerfBuffer, error) {
	if eventsChan == nil {
		return nil, fmt.Errorf("perfchan.New: %w", errNoEvents)
	}
	stream, err := r.Stream(o)
	if err != nil {
		return nil, err
	}
	return &PerfBuffer{reader: r, stream: stream, events: eventsChan, lost: lostChan, ended: make(chan struct{})}, nil
}

var errNoEvents = errors.New("the channel for events is nil: pass one")

// open opens a map by its name, and a stream of it in the first of the orders.
func open[M interface{ FileDescriptor() int }](
	module maps[M], mapName string, events chan []byte, lost chan uint64, orders []perfbuf.Order,
	reader func(fd int, o perfbuf.Order) (*perfbuf.Reader, error),
) (*PerfBuffer, error) {
	switch {
	case events == nil:
		return nil, errNoEvents
	case len(orders) > 1:
		return nil, fmt.Errorf("%d orders: pass one, or none for exact order", len(orders))
	}
	orders = append(orders, perfbuf.Order{})
	m, err := module.GetMap(mapName)
	if err != nil {
		return nil, err
	}
	r, err := reader(m.FileDescriptor(), orders[0])
	if err != nil {
		return nil, err
	}
	b, err := New(r, perfbuf.StreamOptions{Order: orders[0]}, events, lost)
	if err != nil {
		r.Close()
	}
	return b, err
}

// Poll starts the goroutines that read the rings and send. It does not block.
//
// timeout, in libbpfgo how long Stop may have to wait, is ignored: Stop wakes the reader at once.
// Calling Poll twice, or after Stop or Close, has no effect but on [PerfBuffer.Err].
func (b *PerfBuffer) Poll(timeout int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop != nil {
		b.note(errors.New("perfchan.PerfBuffer: Poll had no effect, because it was called twice, or after Stop or Close"))
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	limit := 0 // As many bytes as all rings have may wait for a slow receiver.
	for _, ring := range b.reader.Rings() {
		limit += ring.Size()
	}
	box := newOutbox(limit)
	b.stop = func() {
		cancel()
		box.stop()
	}
	go b.run(ctx, box)
}

// Start is Poll.
func (b *PerfBuffer) Start() { b.Poll(300) }

// Stop ends what Poll has begun, closes the channels, and frees the rings. From then on outputs are
// refused, with ENOENT, or with EOPNOTSUPP where a ring could not be taken out of the map
// (Stats().CloseErr). It waits for the goroutines, which end promptly even without a receiver, and
// for running programs: usually some ms, at most a second. Events in the channels' buffers can
// still be received; Stop drops those that have not come that far. It does nothing before Poll, or
// when called again.
//
// The channel of losses gets the rest of them before it is closed, so that they add up to all there
// ever were: from Linux 6.0 on also those that no record has reported. That needs a buffer of at
// least 1, or a receiver, for which Stop waits a second at most. Stats is then final.
func (b *PerfBuffer) Stop() {
	b.mu.Lock()
	stop := b.stop
	b.mu.Unlock()
	if stop != nil {
		stop()
		<-b.ended
	}
}

// Close is Stop, and frees the rings even before Poll, without closing the channels. Calling it
// again does nothing.
func (b *PerfBuffer) Close() {
	b.mu.Lock()
	if b.stop == nil { // Poll comes too late from now on
		b.stop = func() {}
		close(b.ended)
	}
	stop := b.stop
	b.mu.Unlock()
	stop()
	b.reader.Close()
	<-b.reader.Done()
	<-b.ended
}

// Err returns the first thing that went wrong since InitPerfBuf, nil if nothing has: a corrupt
// record, which is skipped (a [*perfbuf.CorruptError]); a call of Poll that had no effect; another
// reader that has taken CPUs of the map ([perfbuf.ErrDisplaced]), whose events are no longer sent;
// barriers that fail ([perfbuf.ErrBarriers]), so that events are sent a second late, and later ones
// may be older; or the reason why reading ended, after which the rest is sent and the channels are
// closed.
func (b *PerfBuffer) Err() error {
	if err := b.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Stats is [perfbuf.Reader.Stats]: each CPU's samples and losses. Lost is as complete as the counts
// sent, also without a channel for them.
func (b *PerfBuffer) Stats() perfbuf.Stats { return b.reader.Stats() }

// note keeps the first error.
func (b *PerfBuffer) note(err error) { b.err.CompareAndSwap(nil, &err) }

// run reads until ctx ends.
func (b *PerfBuffer) run(ctx context.Context, box *outbox) {
	defer close(b.ended)
	var senders sync.WaitGroup
	senders.Go(func() { box.sendEvents(ctx, b.events) })
	if b.lost != nil {
		senders.Go(func() { box.sendLost(ctx, b.lost) })
	}
	lost := uint64(0) // that records have reported
	send := func(ev perfbuf.Event) {
		switch ev.Kind() {
		case perfbuf.KindSample:
			box.send(b.events, bytes.Clone(ev.Bytes()))
		case perfbuf.KindLost:
			lost += ev.Lost()
			box.putLost(ev.Lost())
		case perfbuf.KindCorrupt:
			b.note(ev.Err())
		}
	}
	put := func() error {
		if !box.put() {
			return ctx.Err()
		}
		return nil
	}
	read := func(batch *perfbuf.Batch) error {
		for ev := range batch.Events() {
			send(ev)
		}
		return put()
	}
	for ctx.Err() == nil {
		err := b.stream.RunBatches(ctx, read)
		if ctx.Err() != nil {
			break
		}
		b.note(err)
		if errors.Is(err, perfbuf.ErrDisplaced) {
			continue // with the other CPUs
		}
		b.stream.ForEachPending(func(ev perfbuf.Event) error { send(ev); return put() })
		if !errors.Is(err, perfbuf.ErrBarriers) {
			break
		}
	}
	b.reader.Close()
	<-b.reader.Done()                                     // counts all losses
	if all := b.reader.Stats().Total().Lost; all > lost { // corrupt memory may have reported more
		box.putLost(all - lost)
	}
	box.end()
	senders.Wait()
	if b.lost != nil {
		box.sendRest(b.lost)
		close(b.lost)
	}
	close(b.events)
}
