package trace

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ringfold/ringfold/internal/newfile"
)

// output is stdout, or a file that has its name when it is complete: a trace that fails replaces no earlier one.
type output struct {
	io.Writer
	file *newfile.File // nil: stdout
	gzip *gzip.Writer  // nil: not compressed
}

func newOutput(path string, stdout io.Writer) (*output, error) {
	if path == "-" {
		return &output{Writer: stdout}, nil
	}
	file, err := newfile.Create(path)
	if err != nil {
		return nil, err
	}
	o := &output{Writer: file, file: file}
	if strings.HasSuffix(path, ".gz") {
		o.gzip, _ = gzip.NewWriterLevel(file, gzip.BestSpeed) // the level exists
		o.Writer = o.gzip
	}
	return o, nil
}

// close gives a complete file its name. One that is not complete stays as it is, as viewers show what there is: the error says
// where. Later calls do nothing.
func (o *output) close(why error) error {
	if o.file == nil {
		return why
	}
	file := o.file
	o.file = nil
	if o.gzip != nil {
		if err := o.gzip.Close(); why == nil {
			why = err
		}
	}
	if why == nil {
		why = file.Keep()
	}
	if err := errors.Join(why, file.Close()); err != nil {
		return fmt.Errorf("%w; what there is of the trace is in %s", err, file.Name())
	}
	return nil
}
