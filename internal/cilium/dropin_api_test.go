package cilium

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	theirperf "github.com/cilium/ebpf/perf"
	theirringbuf "github.com/cilium/ebpf/ringbuf"
	"github.com/ringfold/ringfold/dropin/perf"
	"github.com/ringfold/ringfold/dropin/ringbuf"
	"github.com/stretchr/testify/require"
)

// methods are those that all readers have, with records R.
type methods[R any] interface {
	Read() (R, error)
	ReadInto(*R) error
	control
}

type control interface {
	SetDeadline(time.Time)
	Flush() error
	Close() error
	BufferSize() int
}

type perfControl interface {
	control
	Pause() error
	Resume() error
}

type ringControl interface {
	control
	AvailableBytes() int
}

// This compiles only if the drop-ins have cilium/ebpf's names and types.
var (
	_ = []perfControl{(*theirperf.Reader)(nil), (*perf.Reader)(nil)}
	_ = []ringControl{(*theirringbuf.Reader)(nil), (*ringbuf.Reader)(nil)}

	_ = []func(m *ebpf.Map) error{
		func(m *ebpf.Map) error { _, err := theirperf.NewReader(m, 1); return err },
		func(m *ebpf.Map) error { _, err := perf.NewReader(m, 1); return err },
		func(m *ebpf.Map) error { _, err := theirringbuf.NewReader(m); return err },
		func(m *ebpf.Map) error { _, err := ringbuf.NewReader(m); return err },
	}
	_ = theirperf.Record(perf.Record{})
	_ = theirringbuf.Record(ringbuf.Record{})
	_ = perf.ReaderOptions{WakeupEvents: theirperf.ReaderOptions{}.WakeupEvents, Watermark: theirperf.ReaderOptions{}.Watermark, Overwritable: theirperf.ReaderOptions{}.Overwritable}
	_ = []func(error) bool{theirperf.IsUnknownEvent, perf.IsUnknownEvent}
	_ = []error{theirperf.ErrClosed, perf.ErrClosed, theirringbuf.ErrClosed, ringbuf.ErrClosed, theirperf.ErrFlushed, perf.ErrFlushed, theirringbuf.ErrFlushed, ringbuf.ErrFlushed}
)

// The diff in docs/migrating.md is all that it takes to build a program with the drop-ins.
func TestImportPath(t *testing.T) {
	docs, err := os.ReadFile("../../docs/migrating.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(docs), "## From cilium/ebpf")
	require.True(t, found)
	_, rest, found = strings.Cut(rest, "```diff\n")
	require.True(t, found)
	diff, _, _ := strings.Cut(rest, "```\n")
	program, err := os.ReadFile("agent/agent.go")
	require.NoError(t, err)
	text := string(program)
	var old string
	for line := range strings.Lines(diff) {
		switch line[0] {
		case '-':
			require.Equal(t, 1, strings.Count(text, line[1:]))
			old = line[1:]
		case '+':
			text = strings.Replace(text, old, line[1:], 1)
		}
	}
	require.NotContains(t, text, "cilium/ebpf/")

	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "agent.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(changed, []byte(text), 0o600))
	original, err := filepath.Abs("agent/agent.go")
	require.NoError(t, err)
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	out, err := exec.Command("go", "build", "-overlay", overlay, "./agent").CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
}
