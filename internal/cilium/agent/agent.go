// Package agent reads events as programs do that are written for cilium/ebpf. A test builds it anew
// with the import paths of the drop-ins.
package agent

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"
	"github.com/cilium/ebpf/ringbuf"
)

// Perf hands out the records of a perf event array until ctx is done.
func Perf(ctx context.Context, events *ebpf.Map, handle func(cpu int, sample []byte, lost uint64)) error {
	reader, err := perf.NewReaderWithOptions(events, 16*os.Getpagesize(), perf.ReaderOptions{WakeupEvents: 1})
	if err != nil {
		return err
	}
	defer reader.Close()
	defer context.AfterFunc(ctx, func() { reader.Close() })()
	reader.SetDeadline(time.Time{})
	var record perf.Record
	for {
		err := reader.ReadInto(&record)
		switch {
		case errors.Is(err, perf.ErrClosed):
			return nil
		case perf.IsUnknownEvent(err), errors.Is(err, perf.ErrFlushed):
			continue
		case err != nil:
			return err
		}
		handle(record.CPU, record.RawSample, record.LostSamples)
	}
}

// RingBuf hands out the records that a ring buffer holds.
func RingBuf(events *ebpf.Map, handle func(sample []byte, remaining int)) error {
	reader, err := ringbuf.NewReader(events)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := reader.Flush(); err != nil {
		return err
	}
	for reader.AvailableBytes() > 0 {
		record, err := reader.Read()
		if errors.Is(err, ringbuf.ErrClosed) || errors.Is(err, ringbuf.ErrFlushed) {
			break
		} else if err != nil {
			return err
		}
		handle(record.RawSample, record.Remaining)
	}
	return nil
}
