// Package leak finds what tests leave behind in their process: goroutines, file descriptors, mappings of perf events and BPF maps, threads.
package leak

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// between is the time from one look to the next, at least, and patience how many looks something may take to go away by itself.
// Closed readers take a second at most to settle their counts. Looks are counted, not the time: on a machine that stops for a while,
// or is slow, what is to go away has had no time either. Only a leak takes that many, and after the first one there are fewer.
const between = 5 * time.Millisecond

var patience = int(20 * time.Second / between)

// Main runs a package's tests, and ends the process. If they pass and leave something behind, it says what, and fails.
func Main(m *testing.M) {
	before := take()
	code := m.Run()
	// A fuzzing process has pipes to others, and goroutines that serve them.
	if f := flag.Lookup("test.fuzz"); code == 0 && (f == nil || f.Value.String() == "") {
		code = report(os.Stderr, before.wait(patience))
	}
	os.Exit(code)
}

func report(w io.Writer, left []string) (code int) {
	if len(left) == 0 {
		return 0
	}
	fmt.Fprintf(w, "FAIL: the tests leave behind:\n%s\n", strings.Join(left, "\n"))
	return 1
}

// Check has a test fail if it leaves more behind, when it ends, than there is now. It is for tests that do not run in parallel with
// others. What is cleaned up after the call, by t.Cleanup, has to be set up after it.
func Check(t testing.TB) {
	t.Helper()
	before := take()
	t.Cleanup(func() {
		if t.Failed() {
			return // and has not come to where it cleans up, perhaps
		}
		if left := before.wait(patience); len(left) > 0 {
			patience = int(time.Second / between)
			t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
		}
	})
}

// wait waits until everything that is new is gone, and returns what is not after one look and so many more.
func (before *snapshot) wait(more int) (left []string) {
	for ; ; more-- {
		runtime.GC() // what is cleaned up when it becomes unreachable
		if left = take().beyond(before); len(left) == 0 || more <= 0 {
			return left
		}
		time.Sleep(between)
	}
}
