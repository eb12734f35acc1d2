package zstd

import (
	"log"

	"github.com/klauspost/compress/zstd"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// A recording that is compressed, and its replay.
func Example() {
	var file string

	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		log.Fatal(err)
	}
	recorder, err := perfdata.Create(file, perfdata.Options{Compress: encoder})
	if err != nil {
		log.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		log.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		log.Fatal(err)
	}
	reader, err := perfdata.Open(file, perfdata.ReplayOptions{Decompress: decoder})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(reader.Close())
}
