//go:build linux && cgo

package main

import (
	"os"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if isWorker() { // the load runs this binary
		work()
		return
	}
	os.Exit(m.Run())
}

func short(t *testing.T, change func(*config)) *result {
	t.Helper()
	kerneltest.Require(t)
	c := defaults()
	c.quiet = true
	c.load.Hogs = 0 // other tests run at the same time
	c.duration = 2 * time.Second
	change(&c)
	require.NoError(t, c.check())
	res, err := soak(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, res.Violations)
	require.NotZero(t, res.Delivered)
	t.Logf("%+v", *res)
	return res
}

func TestSoakExact(t *testing.T) {
	res := short(t, func(c *config) {})
	require.Zero(t, res.Late)
	require.NotZero(t, res.Barriers)
	for _, source := range []string{"syscall", "switch", "wakeup", "softirq", "hrtimer"} {
		require.NotZero(t, res.Sources[source], source)
	}
}

func TestSoakSlack(t *testing.T) {
	short(t, func(c *config) { c.mode = "slack" })
}

func TestSoakSmallRings(t *testing.T) {
	res := short(t, func(c *config) { c.ringBytes, c.duration = 8192, time.Second })
	require.NotZero(t, res.Lost)
	require.NotZero(t, res.Gaps)
}
