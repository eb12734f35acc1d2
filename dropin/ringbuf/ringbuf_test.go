package ringbuf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type noMap struct{}

func (noMap) FD() int { return -1 }

func TestNoMap(t *testing.T) {
	_, err := NewReader(noMap{})
	require.ErrorContains(t, err, "ringbuf.NewReader: ")
}
