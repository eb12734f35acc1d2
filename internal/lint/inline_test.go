package lint

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Reading an event is a few loads, as long as the compiler puts these in their callers' places.
func TestTheHotPathIsInlined(t *testing.T) {
	build := exec.Command("go", "build", "-gcflags=-m", "./internal/raw", "./perfbuf", "./perfbuf/perfchan")
	build.Dir = root
	out, err := build.CombinedOutput() // the build cache keeps what the compiler says
	require.NoError(t, err, string(out))
	said := map[string]bool{} // by file, without positions
	for line := range strings.Lines(string(out)) {
		file, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, what, _ := strings.Cut(rest, ": ")
		said[filepath.Base(file)+": "+what] = true
	}
	for _, want := range []string{
		"view.go: can inline Event.Bytes", "view.go: can inline Event.Time", "view.go: can inline Event.Kind",
		"stretch.go: can inline (*Stretch).Sample",
		"event.go: can inline Event.Bytes", "event.go: can inline Event.Time", "event.go: can inline Event.Kind", "event.go: can inline Event.CPU",
		"batch.go: can inline (*Batch).take", "batch.go: can inline (*Batch).Events", "batch.go: can inline (*Batch).Events.func1",
		// The loops over events.
		"run.go: inlining call to raw.(*Stretch).Sample", "batch.go: inlining call to raw.(*Stretch).Sample",
		// A loop over a Batch, in another package.
		"perfchan.go: inlining call to perfbuf.(*Batch).Events", "perfchan.go: inlining call to (*PerfBuffer).run.func3.(*Batch).Events.1",
	} {
		require.True(t, said[want], want)
	}
}
