package trace

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ringfold/ringfold/internal/newfile"
)

// output is the file. It is made by the first Write, and has its name when it is complete: a trace that
// fails replaces no earlier one.
type output struct {
	path   string
	stdout io.Writer
	file   *newfile.File // nil before, and when it is closed
	gzip   *gzip.Writer
}

func (o *output) Write(b []byte) (int, error) {
	if o.path == "-" {
		return o.stdout.Write(b)
	}
	if o.file == nil {
		var err error
		if o.file, err = newfile.Create(o.path); err != nil {
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

// flush completes the compressed stream.
func (o *output) flush() error {
	if o.gzip == nil {
		return nil
	}
	return o.gzip.Close()
}

// keep closes a complete file, and gives it its name.
func (o *output) keep() error {
	if o.file == nil {
		return nil
	}
	err := o.flush()
	if err == nil {
		err = o.file.Keep()
	}
	if err == nil {
		err = o.file.Close()
		o.file = nil
	}
	return err
}

// close closes a file that is not complete. It stays, as viewers show what there is: the error says where.
func (o *output) close(why error) error {
	if o.file == nil {
		return why
	}
	o.flush() // what has failed is said by why
	return fmt.Errorf("%w; what there is of the trace is in %s", errors.Join(why, o.file.Close()), o.file.Name())
}
