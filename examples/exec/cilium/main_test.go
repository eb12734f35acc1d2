package main

import (
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

// It prints what is executed, until Ctrl-C.
func TestExec(t *testing.T) {
	kerneltest.Require(t)
	file := kerneltest.Processes(t)
	kerneltest.Until(t, kerneltest.Program(t, "../exec.bpf.o"), func(line string) bool { return strings.Contains(line, " sample "+file+" 0") })
}
