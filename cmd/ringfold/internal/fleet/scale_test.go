package fleet

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// Twenty hosts at 8,000 events a second in all, by way of a broker: nothing is lost, and nothing is
// out of order.
func TestManyHosts(t *testing.T) {
	s := start(t)
	const hosts, each = 20, 300
	var all []*run
	for i := range hosts {
		all = append(all, publish(t, connect(t, s.URL()), SinkOptions{Host: fmt.Sprint("h", i)}, newMade(400, each)))
	}
	poll(func() bool { return all[0].sink.queue.appended.Load() > 0 })
	r := open(t, s.URL(), "since=all&dead=1h&buffer=100000000")
	r.o.ToEnd = true
	for i := range hosts {
		r.merger.host(fmt.Sprint("h", i)).become(awaited)
	}
	r.run()
	var ending sync.WaitGroup
	for _, h := range all {
		ending.Go(func() {
			h.wait(each)
			h.end()
		})
	}
	ending.Wait()
	res := r.result()
	for name, h := range res.Hosts {
		require.Equal(t, uint64(each), h.Events+h.Lost, name)
	}
	require.Len(t, res.Hosts, hosts)
	require.Zero(t, r.late)
	require.Empty(t, res.Unknown)
}

// load is messages of 100 events each, in turn of hosts, with the time that they are about.
func load(hosts, n int) (all []*message, size int) {
	for i := range n {
		round := i / hosts
		m := since(float64(round)/10, msg(fmt.Sprint("h", i%hosts), uint64(round+1), float64(round+1)/10))
		for e := range 100 {
			m.data = sample(m.data, uint64(round)*1e8+uint64(e)*1e6+uint64(i%hosts), "1234 1234 program /usr/bin/program")
		}
		size += len(m.data) + len(m.header())
		all = append(all, m)
	}
	return all, size
}

// BenchmarkMerge is the core alone: messages in memory, and a reader of the merged stream.
func BenchmarkMerge(b *testing.B) {
	for _, hosts := range []int{2, 10, 100, 1000} {
		b.Run(fmt.Sprint(hosts, " hosts"), func(b *testing.B) {
			all, size := load(hosts, max(500, 2*hosts))
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				m := newMerged(b, ReadOptions{})
				go func() {
					for _, one := range all {
						one := *one // which take changes
						m.merger.feed(&one, at(float64(one.Through)/1e9))
						m.advance(at(float64(one.Through) / 1e9))
					}
					m.end()
				}()
				for ctx := context.Background(); ; {
					err := m.stream.Run(ctx, func(ev perfbuf.Event) error { n++; return nil })
					if err != nil {
						break
					}
				}
				b.StopTimer()
				m.stream.Close()
				runtime.GC()
				b.StartTimer()
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(size)/float64(len(all))/100, "bytes/event")
		})
	}
}

// BenchmarkRead is all from the stream's file to the events.
func BenchmarkRead(b *testing.B) {
	s := start(b)
	js := streamOf(b, connect(b, s.URL()))
	all, _ := load(10, 1000)
	for i := range 10 {
		h := headOf(fmt.Sprint("h", i))
		h.Log = all[i].Log
		put(b, js, h)
	}
	for _, m := range all {
		m.Sequence++
		put(b, js, m)
	}
	n := 0
	for b.Loop() {
		_, out, _ := readAll(b, s.URL(), "all&once=1")
		n += len(out)
	}
	require.Equal(b, b.N*len(all)*100, n)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}
