package main

import (
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

// It prints what is executed, until Ctrl-C.
func TestExec(t *testing.T) {
	kerneltest.Require(t)
	file := kerneltest.Processes(t)
	kerneltest.Until(t, kerneltest.Program(t), func(line string) bool { return strings.Contains(line, " sample "+file+" 0") })
}

func TestArguments(t *testing.T) {
	out, err := kerneltest.Program(t, "-version").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), perfbuf.Version())
}

func TestNoPrivilege(t *testing.T) { kerneltest.Unprivileged(t) }
