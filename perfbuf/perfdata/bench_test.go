package perfdata_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// The cost of an event in memory, without the system's write: ns/op is for one of 40 bytes, read
// included; "read" is reading alone.
func BenchmarkRecord(b *testing.B) {
	for _, name := range []string{"read", "record", "file"} {
		b.Run(name, func(b *testing.B) {
			k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
			r, err := k.Open(perfbuf.Options{RingBytes: 1 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			var rec *perfdata.Recorder
			if name == "file" {
				rec, err = perfdata.Create(filepath.Join(b.TempDir(), "perf.data"), perfdata.Options{})
			} else {
				rec, err = perfdata.NewRecorder(io.Discard, perfdata.Options{})
			}
			if err != nil {
				b.Fatal(err)
			}
			s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
			if err != nil {
				b.Fatal(err)
			}
			payload, n := make([]byte, 40), 0
			for n < b.N {
				b.StopTimer()
				for range 8192 {
					k.Output(0, payload)
				}
				b.StartTimer()
				err := s.ForEachBatch(func(batch *perfbuf.Batch) error {
					for ev := range batch.Events() {
						n++
						if name == "read" {
							sink += ev.Time()
						} else if err := rec.Record(ev); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			rec.Close()
		})
	}
}

var sink uint64

// ns/op is for one event of 40 bytes, from a file in the page cache.
func BenchmarkReplay(b *testing.B) {
	for _, name := range []string{"unordered", "exact", "exact, unsorted"} {
		b.Run(name, func(b *testing.B) {
			const n = 500_000
			path := filepath.Join(b.TempDir(), "perf.data")
			rec, err := perfdata.Create(path, perfdata.Options{})
			if err != nil {
				b.Fatal(err)
			}
			emitted(b, rec, n, name != "exact, unsorted")
			rec.Close()
			b.ResetTimer()
			for i := 0; i < b.N; i += n {
				r, err := perfdata.Open(path, perfdata.ReplayOptions{Reader: perfbuf.Options{RingBytes: 1 << 20}})
				if err != nil {
					b.Fatal(err)
				}
				see := func(ev perfbuf.Event) error { sink += ev.Time(); return nil }
				o := perfbuf.StreamOptions{BarrierInterval: -1}
				if name == "unordered" {
					o.Order = perfbuf.Unordered()
				}
				s, _ := r.Stream(o)
				if err := s.Run(b.Context(), see); err != io.EOF {
					b.Fatal(err)
				}
				r.Close()
			}
		})
	}
}
