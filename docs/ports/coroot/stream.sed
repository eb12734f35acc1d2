# What changes in coroot-node-agent's ebpftracer/tracer.go: one stream of all maps, in the order of
# time, replaces a reader and a goroutine per map.
s,"github.com/cilium/ebpf/perf","github.com/ringfold/ringfold/perfbuf",
s,^	"bytes"$,&\n	"context",
s,\*perf\.Reader,*perfbuf.Reader,
/^	pageSize := os.Getpagesize()$/a\
	var readers []*perfbuf.Reader\
	types := map[string]perfMapType{}
/perf\.NewReaderWithOptions/c\
		r, err := perfbuf.Open(t.collection.Maps[pm.name].FD(), perfbuf.Options{Name: pm.name, RingBytes: pm.perCPUBufferSizePages * pageSize})
s/^		go runEventsReader(.*/		readers, types[pm.name] = append(readers, r), pm.typ/
/^	t\.collectionSpec = /i\
	stream, err := perfbuf.Merge(perfbuf.StreamOptions{}, readers...)\
	if err != nil {\
		t.Close()\
		return fmt.Errorf("failed to merge ebpf readers: %w", err)\
	}\
	go stream.Run(context.Background(), func(ev perfbuf.Event) error { return deliver(ev, types[ev.Source()], ch) })
/^func runEventsReader/,/^}/{
	/^func runEventsReader/,/^		var event Event/c\
func deliver(ev perfbuf.Event, typ perfMapType, ch chan<- Event) error {\
		if ev.Kind() == perfbuf.KindLost {\
			klog.Errorln(ev.Source(), "lost samples:", ev.Lost())\
			return nil\
		}\
		if ev.Kind() != perfbuf.KindSample {\
			return ev.Err()\
		}\
		sample := ev.Record().Data // a copy, which the event keeps\
		var event Event
	s/rec\.RawSample/sample/
	s/continue$/return nil/
	/^		ch <- event/{
		n
		s/.*/		return nil/
	}
}
