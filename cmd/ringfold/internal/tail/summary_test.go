package tail

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Seconds have microseconds, and no digits that come of binary fractions alone.
func TestSeconds(t *testing.T) {
	text, err := json.Marshal(summary{Seconds: seconds(3864411356)})
	require.NoError(t, err)
	require.Contains(t, string(text), `"seconds":3.864411,`)
}
