package clitest

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Output collects what a test's tool prints. Others may read it meanwhile.
type Output struct {
	mu      sync.Mutex
	more    *sync.Cond
	text    bytes.Buffer
	awaited string // the pattern that Wait looks for
	ended   bool
}

// grace is how long before the end of go test's patience a test counts as hanging.
const grace = 10 * time.Second

// NewOutput returns an empty Output. If the test hangs, stderr gets what has been printed and what
// it waits for: go test's own message, which comes grace later, shows neither.
func NewOutput(t *testing.T) *Output {
	o := &Output{}
	o.more = sync.NewCond(&o.mu)
	if end, limited := t.Deadline(); limited {
		timer := time.AfterFunc(time.Until(end)-grace, func() { o.hangs(t.Name()) })
		t.Cleanup(func() { timer.Stop() })
	}
	return o
}

// hangs shows what a test that hangs has printed.
func (o *Output) hangs(test string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended || o.awaited != "" {
		fmt.Fprintf(os.Stderr, "%s hangs, waiting for %q. Printed so far:\n%s\n", test, o.awaited, o.text.Bytes())
	}
}

// Write never fails.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.more.Broadcast()
	return o.text.Write(b)
}

// End says that nothing more will come.
func (o *Output) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.more.Broadcast()
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Wait blocks until a line, which need not be complete, matches this regular expression, and returns
// the match and its groups. The test fails if the tool ends before that.
func (o *Output) Wait(t testing.TB, pattern string) []string {
	t.Helper()
	p := regexp.MustCompile(pattern)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaited = pattern
	for searched := 0; ; o.more.Wait() {
		text := o.text.Bytes()
		if match := p.FindStringSubmatch(string(text[searched:])); match != nil {
			o.awaited = ""
			return match
		}
		require.False(t, o.ended, "the tool has ended without %s:\n%s", pattern, text)
		searched = bytes.LastIndexByte(text, '\n') + 1 // the rest of that line may come
	}
}
