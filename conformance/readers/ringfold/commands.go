//go:build linux

package main

import (
	"context"
	"time"

	"github.com/ringfold/ringfold/conformance/readers/internal/adapter"
	"github.com/ringfold/ringfold/perfbuf"
)

func (r *readers) Do(command string, n int) error {
	switch command {
	case "flush":
		return r.flush()
	case "pause":
		return r.each((*perfbuf.Reader).Pause)
	case "resume":
		return r.each((*perfbuf.Reader).Resume)
	case "drain":
		return r.drain()
	case "stop":
		r.stop()
	case "go":
		r.start()
	case "deadline":
		return r.deadline(time.Duration(n) * time.Millisecond)
	case "receipts":
		r.receipts()
	case "close":
		return r.close(1)
	case "close2":
		return r.close(2)
	case "reopen":
		return r.Open()
	default:
		return adapter.Cannot("unknown command")
	}
	return nil
}

func (r *readers) each(f func(*perfbuf.Reader) error) error {
	for _, reader := range r.all {
		if err := f(reader); err != nil {
			return err
		}
	}
	return nil
}

func (r *readers) flush() error {
	select {
	case <-r.flushed: // of an earlier one
	default:
	}
	for _, stream := range r.streams() {
		if err := stream.Flush(); err != nil {
			return err
		}
		<-r.flushed
	}
	return nil
}

func (r *readers) drain() error {
	r.stop()
	defer r.start()
	for _, stream := range r.streams() {
		if err := stream.Drain(context.Background(), r.deliver); err != nil {
			return err
		}
	}
	return nil
}

// deadline has the loops' context end, and starts them anew.
func (r *readers) deadline(d time.Duration) error {
	r.stop()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for _, run := range r.runs() {
		r.loops.Go(func() { r.ended(ctx, run(ctx)) })
	}
	r.loops.Wait()
	r.start()
	return nil
}

func (r *readers) close(times int) error {
	for range times {
		r.each((*perfbuf.Reader).Close)
	}
	r.loops.Wait()
	for i, reader := range r.all {
		<-reader.Done()
		r.lastLosses(i, reader)
	}
	return nil
}

// lastLosses sends losses that no event has reported. A user finds them in Stats.
func (r *readers) lastLosses(source int, reader *perfbuf.Reader) {
	for _, ring := range reader.Stats().Rings {
		if n := ring.Lost - r.lost(source, ring.CPU, 0); n > 0 {
			r.lost(source, ring.CPU, n)
			r.user.Out.Losses(source, ring.CPU, 0, n)
		}
	}
}

// receipts sends what programs have counted. A user finds it in Stats.
func (r *readers) receipts() {
	for i, reader := range r.all {
		for _, c := range reader.Stats().Outputs.CPUs {
			r.user.Out.Receipt(i, c.CPU, c.Lane, c.Attempted, c.Written, c.Shed, c.Full)
		}
	}
}

// lost adds to the losses that were sent of a CPU, and returns their sum.
func (r *readers) lost(source, cpu int, n uint64) uint64 {
	r.lossesMu.Lock()
	defer r.lossesMu.Unlock()
	key := [2]int{source, cpu}
	r.losses[key] += n
	return r.losses[key]
}
