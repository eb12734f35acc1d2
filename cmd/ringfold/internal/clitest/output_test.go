package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A line may come in pieces, while Wait waits for it.
func TestWait(t *testing.T) {
	o := NewOutput(t)
	found := make(chan []string)
	for range 100 {
		go func() { found <- o.Wait(t, `(?m)^one (\w+) three$`) }()
		for _, piece := range []string{"zero\none", " one two three", "\no", "ne ", "two", " three", "\nfour\n"} {
			fmt.Fprint(o, piece)
		}
		require.Equal(t, []string{"one two three", "two"}, <-found)
	}
}

// A test that hangs shows what it waits for, and what has been printed.
func TestHangs(t *testing.T) {
	const child = "RINGFOLD_TEST_HANGS"
	if os.Getenv(child) != "" {
		o := NewOutput(t)
		fmt.Fprintln(o, "begun")
		o.Wait(t, "the end")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHangs$", "-test.timeout", (grace + time.Second).String())
	cmd.Env = append(os.Environ(), child+"=1")
	stderr := NewOutput(t)
	cmd.Stderr = stderr
	require.NoError(t, cmd.Start())
	ended := make(chan error)
	go func() {
		defer close(ended)
		defer stderr.End()
		cmd.Wait()
	}()
	stderr.Wait(t, `TestHangs hangs, waiting for "the end"`)
	stderr.Wait(t, `(?m)^begun$`)
	require.NoError(t, cmd.Process.Kill())
	<-ended
}
