package cli

import (
	"math"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func TestAge(t *testing.T) {
	before := perfbuf.Now()
	require.LessOrEqual(t, Age(before), perfbuf.Now()-before)
	require.Zero(t, Age(math.MaxUint64))
}
