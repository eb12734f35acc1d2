package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Reading an event is a few loads, as long as the compiler puts these in their callers' places.
func TestTheHotPathIsInlined(t *testing.T) {
	said := compilerSays(t, "./internal/raw", "./internal/stream", "./internal/engine", "./perfbuf", "./perfbuf/perfchan")
	for _, want := range []string{
		"view.go: can inline Event.Bytes", "view.go: can inline Event.Time", "view.go: can inline Event.Kind",
		"events.go: inlining call to (*View).header", "events.go: inlining call to (*View).sample",
		"event.go: can inline Event.Bytes", "event.go: can inline Event.Time", "event.go: can inline Event.Kind", "event.go: can inline Event.CPU",
		"pass.go: can inline (*Pass).Next", "batch.go: can inline (*Batch).Events", "batch.go: can inline (*Batch).Events.func1",
		"run.go: inlining call to stream.(*Pass).Next",
		// A visit to a ring, and a pass.
		"reader.go: inlining call to engine.(*Gate).Enter",
		"stream.go: inlining call to (*Gate).Enter", "stream.go: inlining call to (*Gate).Leave",
		// A loop over a Batch, in another package.
		"perfchan.go: inlining call to perfbuf.(*Batch).Events", "perfchan.go: inlining call to (*PerfBuffer).run.func5.(*Batch).Events.1",
	} {
		require.True(t, said[want], want)
	}
}

// A loop over typed payloads becomes one loop, with neither a call nor an allocation per event.
func TestTypedLoopsAreInlined(t *testing.T) {
	file := filepath.Join(t.TempDir(), "typed.go")
	require.NoError(t, os.WriteFile(file, []byte(typedLoop), 0o600))
	said := compilerSays(t, file)
	const decoder = "Decoder[go.shape.struct { PID uint32; Comm [16]uint8 }]"
	for _, want := range []string{
		"typed.go: inlining call to perfbuf.(*Batch).Events",
		"typed.go: inlining call to perfbuf." + decoder + ".All",
		"typed.go: inlining call to Sum." + decoder + ".All.func2", // the outer iterator
		"typed.go: inlining call to Sum.(*Batch).Events.func1",     // the inner one
		"typed.go: inlining call to perfbuf." + decoder + ".Decode",
		"typed.go: inlining call to Sum-range1", // the loop's body
	} {
		require.True(t, said[want], want)
	}
}

// typedLoop is a user's package.
const typedLoop = `package typed

import "github.com/ringfold/ringfold/perfbuf"

type payload struct {
	PID  uint32
	Comm [16]byte
}

var payloads = perfbuf.NewDecoder[payload]()

func Sum(b *perfbuf.Batch) (n uint64) {
	for p, ev := range payloads.All(b.Events()) {
		n += uint64(p.PID) + ev.Time()
	}
	return n
}
`

// compilerSays returns the compiler's optimization messages for these packages or files: "file:
// message", without positions in the file.
func compilerSays(t *testing.T, packages ...string) map[string]bool {
	build := exec.Command("go", append([]string{"build", "-gcflags=-m"}, packages...)...)
	build.Dir = root
	out, err := build.CombinedOutput() // the build cache keeps these messages
	require.NoError(t, err, string(out))
	said := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		file, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, what, _ := strings.Cut(rest, ": ")
		said[filepath.Base(file)+": "+what] = true
	}
	return said
}
