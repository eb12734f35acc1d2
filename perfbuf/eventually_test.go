package perfbuf_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// waitLog receives eventually's messages. t.Log would show nothing when the run exceeds its
// -timeout.
var waitLog io.Writer = os.Stderr

// eventually waits until cond holds, for as long as it takes. It logs its condition every 30 s.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	const every = 30 * time.Second
	began, said := time.Now(), 0*every
	for !cond() {
		if waited := time.Since(began); waited >= said+every {
			said = waited.Truncate(every)
			fmt.Fprintf(waitLog, "%s: waiting for %v: %s\n", t.Name(), said, what)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func TestEventuallySaysWhatItWaitsFor(t *testing.T) {
	before := waitLog
	defer func() { waitLog = before }()
	var said strings.Builder
	waitLog = &said
	synctest.Test(t, func(t *testing.T) {
		wait := func(d time.Duration) {
			began := time.Now()
			eventually(t, "the time to come", func() bool {
				time.Sleep(time.Second)
				return time.Since(began) >= d
			})
		}
		wait(20 * time.Second)
		require.Empty(t, said.String())
		wait(100 * time.Second)
		wait(20 * time.Second)
	})
	name := t.Name() + ": waiting for "
	require.Equal(t, name+"30s: the time to come\n"+name+"1m0s: the time to come\n"+name+"1m30s: the time to come\n", said.String())
}
