package host

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOlderThan(t *testing.T) {
	require.False(t, OlderThan(5, 0))
	require.True(t, OlderThan(1000, 0))
}
