package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What repeats is said once a minute, and how often it came meanwhile.
func TestNotes(t *testing.T) {
	var printed []string
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := noter{print: func(text string) { printed = append(printed, text) }, now: func() time.Time { return now }, said: map[string]*saying{}}
	for range 20 * 90 {
		n.note("refused")
		now = now.Add(time.Second / 20)
	}
	n.note("other")
	require.Equal(t, []string{"refused", "refused (and 1199 times since it was last said, 1m0s ago)", "other"}, printed)
	now = now.Add(time.Hour)
	n.note("other")
	require.Equal(t, "other", printed[3])
	for i := range 10 * mostSaid {
		n.note(fmt.Sprint(i))
	}
	require.LessOrEqual(t, len(n.said), mostSaid)
}
