package bpf_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/stretchr/testify/require"
)

func TestOlderThan(t *testing.T) {
	require.False(t, bpf.OlderThan(5, 0))
	require.True(t, bpf.OlderThan(1000, 0))
}
