package wire

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	frames := []Frame{
		{Type: Event, Source: 1, CPU: 3, Time: 1 << 60, Data: []byte("payload")},
		{Type: Event, CPU: -1, Data: []byte{}},
		{Type: Done, CPU: -1, Data: []byte("flush")},
	}
	for _, f := range frames {
		require.NoError(t, w.Write(f))
	}
	require.NoError(t, w.Losses(0, 2, 5, 7))
	require.NoError(t, w.Flush())

	r, buffer := bufio.NewReader(&b), []byte(nil)
	for _, want := range frames {
		f, err := Read(r, &buffer)
		require.NoError(t, err)
		require.Equal(t, want, f)
	}
	f, err := Read(r, &buffer)
	require.NoError(t, err)
	require.Equal(t, Frame{Type: Lost, CPU: 2, Time: 5, Data: []byte{7, 0, 0, 0, 0, 0, 0, 0}}, f)
	_, err = Read(r, &buffer)
	require.Equal(t, io.EOF, err)
}

func TestNoFrame(t *testing.T) {
	buffer := []byte(nil)
	_, err := Read(bufio.NewReader(bytes.NewReader(bytes.Repeat([]byte("hello, world\n"), 10))), &buffer)
	require.ErrorContains(t, err, "no frame")
}

// What a writer allocates would be counted as the reader's.
func TestAllocations(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	require.NoError(t, w.Allocations())
	require.NoError(t, w.Flush())
	buffer := []byte(nil)
	f, err := Read(bufio.NewReader(&b), &buffer)
	require.NoError(t, err)
	require.Equal(t, Number, f.Type)
	require.NotEqual(t, make([]byte, 8), f.Data)

	w = NewWriter(io.Discard)
	payload := make([]byte, 100)
	require.Less(t, testing.AllocsPerRun(1000, func() { w.Write(Frame{Type: Event, Data: payload}) }), 1.0)
}
