package perfevent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMapThatIsTooSmall(t *testing.T) {
	err := mapInfo{ID: 3, Name: "events", Type: 4, MaxEntries: 9}.tooSmall(9)
	var mapErr *MapError
	require.ErrorAs(t, err, &mapErr)
	require.Equal(t, []any{3, 4, 9, "events"}, []any{mapErr.ID, mapErr.Type, mapErr.MaxEntries, mapErr.Name})
	require.ErrorContains(t, err, `map "events" (id 3): it has 9 entries, but CPU 9 needs entry 9`)
}

func TestMapOfAnotherType(t *testing.T) {
	require.NoError(t, mapInfo{Type: 4}.check())
	require.ErrorContains(t, mapInfo{Type: 27}.check(), "BPF_MAP_TYPE_RINGBUF (27), but only BPF_MAP_TYPE_PERF_EVENT_ARRAY (4)")
	require.ErrorContains(t, mapInfo{Type: 27}.check(), "libbpfgo's InitRingBuf")
	require.ErrorContains(t, mapInfo{Type: 1}.check(), "BPF_MAP_TYPE_HASH (1)")
	require.ErrorContains(t, mapInfo{Type: 99}.check(), "of type 99, but")
}
