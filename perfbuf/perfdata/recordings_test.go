package perfdata_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// A recording of each example's programs is replayed: 40 processes, which execute taskset and then
// true, and end. Those of sources are in three maps, of which one is a ring buffer; of callbacks
// there are 300 system calls, of prometheus 100 switches.
func TestRecordings(t *testing.T) {
	for name, want := range map[string]map[string]int{
		"exec":     {"/bin/true": 40, "/usr/bin/taskset": 40},
		"ordered":  {"exec": 80, "exit": 40},
		"recorder": {"exec": 80, "exit": 40},
		"sources":  {"execs": 80, "exits": 40, "forks": 40},

		"callbacks":  {"events": 300},
		"prometheus": {"events": 100},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".perf.data")
			st, err := os.Stat(path)
			require.NoError(t, err)
			require.Less(t, st.Size(), int64(64<<10))
			readers := openedAll(t, path)
			stream, err := perfbuf.Merge(perfbuf.StreamOptions{}, readers...)
			require.NoError(t, err)
			got, last, n := map[string]int{}, uint64(0), 0
			require.Equal(t, io.EOF, stream.Run(t.Context(), func(ev perfbuf.Event) error {
				require.Equal(t, perfbuf.KindSample, ev.Kind())
				require.GreaterOrEqual(t, ev.Time(), last)
				last = ev.Time()
				what := ev.Source()
				switch name {
				case "exec", "recorder":
					what, _, _ = strings.Cut(string(ev.Bytes()), "\x00")
				case "ordered":
					what = []string{"fork", "exec", "exit"}[binary.NativeEndian.Uint32(ev.Bytes())]
				}
				got[what]++
				n++
				return nil
			}))
			require.Equal(t, want, got)
			require.Equal(t, n, strings.Count(perf(t, "script", "-i", path, "-F", "event"), ":"))
		})
	}
}

// process is the output of examples/ordered.
type process struct {
	Kind, PID uint32
	Comm      [16]byte
}

var asProcess = perfbuf.NewDecoder[process]()

// running tracks the running processes and their files.
type running map[uint32]string

func (r running) handle(ev perfbuf.Event) error {
	switch p, ok := asProcess.Decode(ev); {
	case !ok:
		return fmt.Errorf("not an event of these programs: %v", ev)
	case p.Kind == 1: // it executes
		r[p.PID] = string(p.Comm[:])
	case p.Kind == 2: // it exits
		delete(r, p.PID)
	}
	return nil
}

// A bug, reproduced from a recording: read CPU by CPU, events may come after their consequences. A
// process then executes a file after it has ended, and stays in the table. In order of time none
// does.
func Example_bug() {
	read := func(ordered bool) {
		reader, err := perfdata.Open("testdata/ordered.perf.data", perfdata.ReplayOptions{})
		if err != nil {
			panic(err)
		}
		defer reader.Close()
		order := perfbuf.Unordered() // EOF, and 20 of 40 processes stay
		if ordered {
			order = perfbuf.Order{} // EOF, and none stays
		}
		stream, err := reader.Stream(perfbuf.StreamOptions{Order: order})
		if err != nil {
			panic(err)
		}
		r := running{}
		end := stream.Run(context.Background(), r.handle)
		fmt.Println(end, len(r), "of 40 processes stay")
	}
	read(false)
	read(true)
	// Output:
	// EOF 20 of 40 processes stay
	// EOF 0 of 40 processes stay
}
