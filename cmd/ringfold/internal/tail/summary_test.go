package tail

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Seconds have microseconds, and no digits that come of binary fractions alone.
func TestSummarySeconds(t *testing.T) {
	var s summary
	s.finish(3864411356, nil)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(text), `"seconds":3.864411,`)
}
