package perfbuf

import (
	"encoding/binary"
	"fmt"
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

func TestDecoderReadsStructsWhereverTheyLie(t *testing.T) {
	decoder := NewDecoder[seen]()
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
		require.NoError(t, k.unordered().ForEach(func(ev Event) error {
			n++
			got, ok := decoder.Decode(ev)
			require.True(t, ok)
			require.Equal(t, want, got)
			return nil
		}))
		require.Equal(t, 1, n)
	}
}

func TestDecoderComparesSizes(t *testing.T) {
	k := newFake(t, 1, Options{})
	require.NoError(t, k.w[0].Output(1, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})) // recorded as 12
	require.NoError(t, k.unordered().ForEach(func(ev Event) error {
		require.Equal(t, 12, len(ev.Bytes()))
		got, ok := NewDecoder[[4]byte]().Decode(ev)
		require.True(t, ok, "shorter is fine")
		require.Equal(t, [4]byte{1, 2, 3, 4}, got)
		_, ok = NewDecoder[[12]byte]().Decode(ev)
		require.True(t, ok)
		wide, ok := NewDecoder[[13]byte]().Decode(ev)
		require.False(t, ok)
		require.Zero(t, wide)
		return nil
	}))
}

func TestDecoderReadsSamplesOnly(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.fill(0, 1)
	ids(t, k.unordered())
	k.output(0, 500)
	k.w[0].PutHeader(9, 0, 64)
	var ok []bool
	require.NoError(t, k.unordered().ForEach(func(ev Event) error {
		_, sample := NewDecoder[uint32]().Decode(ev)
		ok = append(ok, sample)
		return nil
	}))
	require.Equal(t, []bool{false, true, false}, ok, "a loss, a sample, corrupt memory")
}

func TestDecoderRefusesAllButNumbers(t *testing.T) {
	for i, refused := range []func(){
		made[*int], made[string], made[[]byte], made[map[int]int], made[chan int], made[func()], made[any], made[error],
		made[unsafe.Pointer], made[bool], made[[2]*int], made[[0]string], made[struct{ A struct{ B []int } }], made[struct {
			A int
			b *int
		}],
	} {
		require.ErrorContains(t, panicOf(refused), "contains other types than numbers", i)
	}
	for i, empty := range []func(){made[struct{}], made[[0]int], made[[3]struct{ A [0]int }]} {
		require.ErrorContains(t, panicOf(empty), "has no bytes", i)
	}
	for i, fine := range []func(){made[seen], made[uintptr], made[float64], made[complex128], made[[3]int8]} {
		require.NoError(t, panicOf(fine), i)
	}
}

func made[T any]() { NewDecoder[T]() }

func panicOf(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	f()
	return nil
}

func TestZeroDecoderPanics(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.output(0, 1)
	const want = "perfbuf: zero Decoder: make one with NewDecoder"
	require.NoError(t, k.unordered().ForEachBatch(func(b *Batch) error {
		require.PanicsWithValue(t, want, func() {
			for range (Decoder[int]{}).All(b.Events()) {
			}
		})
		return nil
	}))
	require.PanicsWithValue(t, want, func() { Decoder[int]{}.Decode(Event{}) })
	_, ok := NewDecoder[int]().Decode(Event{})
	require.False(t, ok, "of the zero Event")
}

// All yields every event; one that cannot be decoded comes with a zero value.
func TestDecoderIteratesOverAllEvents(t *testing.T) {
	type seen struct {
		value [4]uint8
		kind  Kind
	}
	eachSource(t, 1, func(t *testing.T, k *fake, src *Stream) {
		n := k.fill(0, 1)
		ids(t, src)
		for _, payload := range [][]byte{{1, 2, 3, 4}, {5, 6, 7, 8, 9}, {}, {10, 11, 12, 13}} {
			require.NoError(t, k.w[0].Output(uint64(n)+10, payload))
		}
		k.w[0].PutHeader(9, 0, 64)
		decoder := NewDecoder[[4]uint8]()
		var got []seen
		require.NoError(t, src.ForEachBatch(func(b *Batch) error {
			for value, ev := range decoder.All(b.Events()) {
				got = append(got, seen{value, ev.Kind()})
			}
			return nil
		}))
		require.Equal(t, []seen{
			{[4]uint8{}, KindLost},
			{[4]uint8{1, 2, 3, 4}, KindSample},
			{[4]uint8{5, 6, 7, 8}, KindSample},
			{[4]uint8{}, KindSample},
			{[4]uint8{10, 11, 12, 13}, KindSample},
			{[4]uint8{}, KindCorrupt},
		}, got)
	})
}

// A loop that is left takes no more events than it has had, and may be taken up again.
func TestDecoderIterationMayBeLeft(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.output(0, 1, 2, 3)
	decoder := NewDecoder[[12]byte]()
	var got []uint64
	require.NoError(t, k.unordered().ForEachBatch(func(b *Batch) error {
		all := decoder.All(b.Events())
		for value, ev := range all {
			require.Equal(t, ev.Bytes(), value[:])
			got = append(got, ev.Time())
			break
		}
		for _, ev := range all { // nothing in the poison build, where a batch holds one event
			got = append(got, ev.Time())
			break
		}
		if len(got) < 2 {
			return nil
		}
		return ErrStop
	}))
	require.Equal(t, []uint64{1, 2}, got)
	require.Equal(t, []uint64{3}, ids(t, k.unordered()))
}
