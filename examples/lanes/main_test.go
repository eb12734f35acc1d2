package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

// Of both lanes it accounts for each output, and it loses none of the life of processes. The user
// is slower than system calls come.
func TestLanes(t *testing.T) {
	kerneltest.Require(t)
	kerneltest.Processes(t)
	lines := kerneltest.Until(t, kerneltest.Program(t, "-work", "200us"), func(line string) bool { return strings.Contains(line, "shed") })
	for i, lane := range []string{"calls", "life"} {
		var attempted, written, shed, lost uint64
		_, err := fmt.Sscanf(lines[len(lines)-2+i], lane+": %d attempted = %d written + %d shed + %d lost", &attempted, &written, &shed, &lost)
		require.NoError(t, err)
		require.NotZero(t, written)
		require.Equal(t, attempted, written+shed+lost)
		require.Equal(t, lane == "calls", shed > 0)
	}
}
