package tail

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/stretchr/testify/require"
)

// load is n batches of 100 events, in turn of hosts.
func load(hosts, n int) (batches []*wire.Batch) {
	for i := range n {
		round := i / hosts
		b := &wire.Batch{Host: fmt.Sprintf("h%d", i%hosts), BootId: "boot", LogId: "log", Sequence: uint64(round + 1), BaseTime: uint64(round) * 1e8,
			Watermark: uint64(round+1) * 1e8, WallOffset: epoch.UnixNano()}
		for e := range 100 {
			b.Events = append(b.Events, &wire.Event{Kind: wire.Event_EXEC, Delta: uint64(e * 1e6), Pid: 1234, Tid: 1234, Comm: "program", Detail: "/usr/bin/program"})
		}
		batches = append(batches, b)
	}
	return batches
}

// BenchmarkMerge is the core alone: batches that are decoded, in memory.
func BenchmarkMerge(b *testing.B) {
	for _, hosts := range []int{2, 10, 100, 1000} {
		b.Run(fmt.Sprint(hosts, " hosts"), func(b *testing.B) {
			batches := load(hosts, max(2000, 2*hosts))
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				m := newMerger(MergeOptions{}, func(Item) error {
					n++
					return nil
				})
				for _, batch := range batches {
					m.Feed(batch, at(float64(batch.Watermark)/1e9))
					m.Advance(at(float64(batch.Watermark) / 1e9))
				}
				m.Drain()
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// nowhere is a Sink that counts.
type nowhere struct{ n int }

func (s *nowhere) Put(Item) error {
	s.n++
	return nil
}

func (s *nowhere) Flush() error { return nil }

// BenchmarkTail is all from the stream's file to the Sink.
func BenchmarkTail(b *testing.B) {
	const messages = 2000
	s, err := broker.Start(b.TempDir())
	require.NoError(b, err)
	defer s.Close()
	nc, err := nats.Connect(s.URL())
	require.NoError(b, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(b, err)
	_, err = js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"EVENTS.>"}})
	require.NoError(b, err)
	size := 0
	for _, batch := range load(10, messages) {
		data, err := wire.Marshal(batch)
		require.NoError(b, err)
		size += len(data)
		_, err = js.PublishAsync(wire.Subject("EVENTS", batch.Host), data)
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
	sink := new(nowhere)
	for b.Loop() {
		_, err := Run(context.Background(), nc, Options{Stream: "EVENTS", All: true, Once: true}, sink)
		require.NoError(b, err)
	}
	require.Equal(b, b.N*messages*100, sink.n)
	b.ReportMetric(float64(sink.n)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(size)/messages/100, "bytes/event")
}
