//go:build linux && cgo && !perfbuf_nolibbpf

package libbpf_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aquasecurity/libbpfgo"
	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// printed has the test, and not stderr, told of all that libbpf warns of.
func printed(t *testing.T, f func(msg string)) {
	t.Helper()
	warn := func(f func(msg string)) {
		libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: func(level int, msg string) {
			if level <= libbpfgo.LibbpfWarnLevel {
				f(msg)
			}
		}})
	}
	warn(f)
	t.Cleanup(func() { warn(func(msg string) { fmt.Fprint(os.Stderr, msg) }) })
}

// Warnings of NewRaw go into its error alone; those of other calls, and of other threads
// meanwhile, go where they always do.
func TestNewRawPrints(t *testing.T) {
	e := kerneltest.Load(t)
	oursFail := func() {
		pb, err := libbpf.NewRaw(e.MapFD(), 3, attr(), []int{0}, []int{0})
		require.Nil(t, pb)
		require.EqualError(t, err, "perf_buffer__new_raw: page count should be power of two, but is 3: invalid argument")
	}
	var warnings atomic.Int64
	printed(t, func(msg string) {
		if strings.Contains(msg, "page count") {
			t.Errorf("printed: %q", msg)
		}
		warnings.Add(1)
	})
	prog, err := e.Module().GetProgram("run")
	require.NoError(t, err)
	otherFails := func() {
		if _, err := prog.AttachRawTracepoint("none"); err == nil {
			t.Error("a tracepoint named none")
		}
	}
	oursFail()
	require.Zero(t, warnings.Load())
	otherFails()
	require.EqualValues(t, 1, warnings.Load())

	const rounds = 300
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range rounds {
				otherFails()
			}
		})
	}
	for range rounds {
		oursFail()
	}
	wg.Wait()
	require.EqualValues(t, 1+3*rounds, warnings.Load())
}
