// Package leak finds resources that tests leave behind in their process: goroutines, file
// descriptors, mappings of perf events and BPF maps, threads.
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

// between is the least time from one look to the next. patience is the number of looks after which
// something still present is a leak. Closed readers need at most a second to settle their counts.
// Looks are counted, not time: on a slow or paused machine, cleanup has had no time either. Only a
// leak takes that many looks, and after the first leak there are fewer.
const between = 5 * time.Millisecond

var patience = int(20 * time.Second / between)

// Main runs a package's tests, and ends the process. If they pass and leave something behind, it
// reports that, and fails.
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

// Check fails the test if more is left when it ends than at the call. Use it in tests that do not
// run in parallel. Register its cleanups (t.Cleanup) after this call.
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

// wait waits until everything new is gone. It returns the rest after one look and so many more.
func (before *snapshot) wait(more int) (left []string) {
	for ; ; more-- {
		runtime.GC() // runs cleanups of unreachable objects
		if left = take().beyond(before); len(left) == 0 || more <= 0 {
			return left
		}
		time.Sleep(between)
	}
}
