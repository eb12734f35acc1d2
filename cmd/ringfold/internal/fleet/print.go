package fleet

import (
	"bufio"
	"io"
	"slices"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/internal/quantile"
)

// eventNames are those that may be chosen.
var eventNames = []string{"fork", "exec", "exit"}

func eventName(kind wire.Event_Kind) string {
	switch kind {
	case wire.Event_FORK:
		return "fork"
	case wire.Event_EXEC:
		return "exec"
	case wire.Event_EXIT:
		return "exit"
	case wire.Event_GAP:
		return "gap"
	}
	return "unknown" // to this version
}

// filter says which events are printed. Its zero value: all.
type filter struct {
	events []string
	comms  []string
	since  time.Time
}

func (f filter) wants(i tail.Item) bool {
	switch {
	case i.Event.Gap != nil:
		return true // of what is missing nobody knows what it was
	case len(f.events) > 0 && !slices.Contains(f.events, eventName(i.Event.Kind)),
		len(f.comms) > 0 && !slices.Contains(f.comms, i.Event.Comm):
		return false
	}
	return f.since.IsZero() || i.Wall >= f.since.UnixNano()
}

// printer prints events. It is the tail's Sink.
type printer struct {
	out    *bufio.Writer
	filter filter
	format format
	n      uint64 // how many to print; 0: all
	began  time.Time
	buf    []byte
	printed
}

// printed is what was.
type printed struct {
	events uint64
	delay  quantile.Histogram // of those that have happened since we began, ns
	// In the end: why events may be missing.
	unknown []string
}

// format is how it is printed: text, compact or JSON. Each appends to b.
type format interface {
	item(b []byte, i tail.Item) []byte
	summary(b []byte, p *printed, r tail.Result) []byte
}

func newPrinter(out io.Writer, c tailConfig) *printer {
	p := &printer{out: bufio.NewWriterSize(out, 64<<10), filter: c.filter, n: c.n, began: time.Now(), format: &text{}}
	p.filter.since = c.read.Since
	switch c.output.Format {
	case cli.JSON:
		p.format = jsonLines{}
	case cli.Compact:
		p.format = &compact{}
	}
	return p
}

func (p *printer) Put(i tail.Item) error {
	if !p.filter.wants(i) {
		return nil
	}
	p.buf = p.format.item(p.buf[:0], i)
	if _, err := p.out.Write(p.buf); err != nil {
		return err
	}
	if i.Event.Gap != nil {
		return nil
	}
	p.events++
	if now := time.Now(); i.Wall >= p.began.UnixNano() {
		p.delay.Add(uint64(max(0, now.UnixNano()-i.Wall)))
	}
	if p.events == p.n {
		return tail.ErrEnough
	}
	return nil
}

func (p *printer) Flush() error { return p.out.Flush() }

// end prints the summary.
func (p *printer) end(r tail.Result) error {
	p.unknown = unknown(r, p.filter.since)
	if _, err := p.out.Write(p.format.summary(nil, &p.printed, r)); err != nil {
		return err
	}
	return p.out.Flush()
}
