package raw

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestOffsetsAreThoseOfTheKernelsStruct(t *testing.T) {
	var page unix.PerfEventMmapPage
	require.Equal(t, unsafe.Offsetof(page.Data_head), uintptr(8*HeadWord))
	require.Equal(t, unsafe.Offsetof(page.Data_tail), uintptr(8*TailWord))
	require.Equal(t, unsafe.Sizeof(page), uintptr(metaSize))
	require.Equal(t, uintptr(8), unsafe.Sizeof(header{}))
	require.Equal(t, unix.PERF_RECORD_LOST, typeLost)
	require.Equal(t, unix.PERF_RECORD_SAMPLE, typeSample)
}
