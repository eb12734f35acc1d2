package zstd

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// The cost of an event of 64 bytes with a number, two ids and a name, like those of processes:
// ns/op, and bytes of the file. It is recorded in pieces of 1 MiB, and in pieces of 8 KiB, as of a
// stream with few events in each pass.
func BenchmarkRecord(b *testing.B) {
	names := []string{"/bin/sh", "/usr/bin/python3", "kworker/0:1", "containerd-shim", "/usr/lib/systemd/systemd", "sshd", "postgres", "make"}
	for _, piece := range []int{1 << 20, 8 << 10} {
		for _, level := range []string{"plain", "fastest", "default"} {
			b.Run(map[int]string{1 << 20: "1MiB/", 8 << 10: "8KiB/"}[piece]+level, func(b *testing.B) {
				k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
				r, err := k.Open(perfbuf.Options{RingBytes: 1 << 20})
				if err != nil {
					b.Fatal(err)
				}
				defer r.Close()
				var o perfdata.Options
				if level != "plain" {
					_, l := zstd.EncoderLevelFromString(level)
					o.Compress, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(1))
				}
				rec, err := perfdata.Create(filepath.Join(b.TempDir(), "perf.data"), o)
				if err != nil {
					b.Fatal(err)
				}
				rnd := rand.New(rand.NewPCG(1, 2))
				payload, n, each := make([]byte, 64), 0, piece/112
				s := unordered(b, r)
				for n < b.N {
					b.StopTimer()
					for range min(each, 8192) {
						n++
						binary.NativeEndian.PutUint64(payload, uint64(n))
						binary.NativeEndian.PutUint32(payload[8:], 1000+rnd.Uint32N(200))
						binary.NativeEndian.PutUint32(payload[12:], rnd.Uint32N(3))
						clear(payload[16:])
						copy(payload[16:], names[rnd.IntN(len(names))])
						k.Advance(time.Duration(500 + rnd.IntN(5000)))
						k.Output(0, payload)
					}
					b.StartTimer()
					if err := s.ForEach(rec.Record); err != nil {
						b.Fatal(err)
					}
					if err := rec.Flush(); err != nil {
						b.Fatal(err)
					}
				}
				rec.Close()
				b.ReportMetric(float64(rec.Stats().Bytes)/float64(n), "bytes/event")
			})
		}
	}
}
