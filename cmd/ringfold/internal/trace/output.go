package trace

import (
	"compress/gzip"
	"io"
	"os"
	"strings"
)

// output is the file. It exists from the first Write on: a recording that cannot begin leaves none, and spoils no earlier one.
type output struct {
	path   string
	stdout io.Writer
	file   *os.File
	gzip   *gzip.Writer
}

func (o *output) Write(b []byte) (int, error) {
	if o.path == "-" {
		return o.stdout.Write(b)
	}
	if o.file == nil {
		var err error
		if o.file, err = os.Create(o.path); err != nil {
			return 0, err
		}
		if strings.HasSuffix(o.path, ".gz") {
			o.gzip, _ = gzip.NewWriterLevel(o.file, gzip.BestSpeed) // the level exists
		}
	}
	if o.gzip != nil {
		return o.gzip.Write(b)
	}
	return o.file.Write(b)
}

func (o *output) close() error {
	if o.file == nil {
		return nil
	}
	if o.gzip != nil {
		if err := o.gzip.Close(); err != nil {
			o.file.Close()
			return err
		}
	}
	return o.file.Close()
}
