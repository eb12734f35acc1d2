package perfbuf

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

type seen struct {
	PID   uint32
	Flags [4]uint8
	Addr  uint64
	Name  [16]byte
	Pair  struct{ A, B uint16 }
	Last  uint32
}

func TestViewReadsStructsWhereverTheyLie(t *testing.T) {
	view := MustView[seen]()
	want := seen{PID: 1, Flags: [4]uint8{2, 3, 4, 5}, Addr: 1 << 60, Name: [16]byte{'n', 15: 'z'}, Last: 9}
	want.Pair.A, want.Pair.B = 7, 8
	payload := binary.NativeEndian.AppendUint32(nil, want.PID)
	payload = append(payload, want.Flags[:]...)
	payload = binary.NativeEndian.AppendUint64(payload, want.Addr)
	payload = append(payload, want.Name[:]...)
	payload = binary.NativeEndian.AppendUint16(payload, want.Pair.A)
	payload = binary.NativeEndian.AppendUint16(payload, want.Pair.B)
	payload = binary.NativeEndian.AppendUint32(payload, want.Last)
	require.Equal(t, unsafe.Sizeof(want), uintptr(len(payload)))

	for before := uint64(8); before <= 80; before += 8 {
		k := newFakeAt(t, 1, fakeRingSize-before, Options{})
		require.NoError(t, k.w[0].Output(1, payload))
		n := 0
		require.NoError(t, k.ForEach(func(ev Event) error {
			n++
			got, ok := view.Load(ev)
			require.True(t, ok)
			require.Equal(t, want, got)
			return nil
		}))
		require.Equal(t, 1, n)
	}
}

func TestViewComparesSizes(t *testing.T) {
	k := newFake(t, 1, Options{})
	require.NoError(t, k.w[0].Output(1, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})) // recorded as 12
	require.NoError(t, k.ForEach(func(ev Event) error {
		require.Equal(t, 12, ev.Len())
		got, ok := MustView[[4]byte]().Load(ev)
		require.True(t, ok, "shorter is fine")
		require.Equal(t, [4]byte{1, 2, 3, 4}, got)
		_, ok = MustView[[12]byte]().Load(ev)
		require.True(t, ok)
		wide, ok := MustView[[13]byte]().Load(ev)
		require.False(t, ok)
		require.Zero(t, wide)
		_, ok = MustView[struct{}]().Load(ev)
		require.True(t, ok)
		return nil
	}))
}

func TestViewReadsSamplesOnly(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.fill(0, 1)
	ids(t, k.Reader)
	k.output(0, 500)
	k.w[0].PutHeader(9, 0, 64)
	var ok []bool
	require.NoError(t, k.ForEach(func(ev Event) error {
		_, sample := MustView[uint32]().Load(ev)
		ok = append(ok, sample)
		return nil
	}))
	require.Equal(t, []bool{false, true, false}, ok, "a loss, a sample, corrupt memory")
}

func TestViewRefusesAllButNumbers(t *testing.T) {
	refused := []error{
		second(ViewOf[*int]()), second(ViewOf[string]()), second(ViewOf[[]byte]()), second(ViewOf[map[int]int]()),
		second(ViewOf[chan int]()), second(ViewOf[func()]()), second(ViewOf[any]()), second(ViewOf[error]()),
		second(ViewOf[unsafe.Pointer]()), second(ViewOf[bool]()), second(ViewOf[[2]*int]()), second(ViewOf[[0]string]()),
		second(ViewOf[struct{ A struct{ B []int } }]()), second(ViewOf[struct {
			A int
			b *int
		}]()),
	}
	for i, err := range refused {
		require.ErrorContains(t, err, "is not made of numbers alone", i)
	}
	for i, err := range []error{
		second(ViewOf[seen]()), second(ViewOf[uintptr]()), second(ViewOf[float64]()), second(ViewOf[complex128]()), second(ViewOf[[3]int8]()),
	} {
		require.NoError(t, err, i)
	}
	require.Panics(t, func() { MustView[string]() })
}

func second[A any](_ A, err error) error { return err }

func TestZeroViewPanics(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.output(0, 1)
	require.NoError(t, k.ForEach(func(ev Event) error {
		require.PanicsWithValue(t, "perfbuf: zero View: make one with ViewOf", func() { View[int]{}.Load(ev) })
		return nil
	}))
}
