package perfevent

import (
	"testing"

	"github.com/ringfold/ringfold/internal/host"
	"github.com/stretchr/testify/require"
)

func TestMapThatIsTooSmall(t *testing.T) {
	err := tooSmall(host.Map{ID: 3, Name: "events", Type: 4, MaxEntries: 9}, 9)
	var mapErr *host.MapError
	require.ErrorAs(t, err, &mapErr)
	require.Equal(t, []any{3, 4, 9, "events"}, []any{mapErr.ID, mapErr.Type, mapErr.MaxEntries, mapErr.Name})
	require.ErrorContains(t, err, `map "events" (id 3): it has 9 entries, but CPU 9 needs entry 9`)
}

func TestMapOfAnotherType(t *testing.T) {
	require.NoError(t, checkType(host.Map{Type: 4}))
	require.ErrorContains(t, checkType(host.Map{Type: 27}), "BPF_MAP_TYPE_RINGBUF (27), but only BPF_MAP_TYPE_PERF_EVENT_ARRAY (4)")
	require.ErrorContains(t, checkType(host.Map{Type: 27}), "perfbuf.OpenRingBuf")
	require.ErrorContains(t, checkType(host.Map{Type: 1}), "BPF_MAP_TYPE_HASH (1)")
	require.ErrorContains(t, checkType(host.Map{Type: 99}), "of type 99, but")
}
