package tail

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHexdump(t *testing.T) {
	for want, data := range map[string][]byte{
		"":                {},
		"61 0a ff  |a..|": []byte("a\n\xff"),
		"30 30 30 30 30 30 30 30  30  |000000000|": []byte("000000000"),
		"0000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|\n" +
			"  0010  7e                                                |~|": []byte("0123456789abcdef~"),
		"0000  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n" +
			"  *\n" +
			"  0030  00 01                                             |..|": append(make([]byte, 49), 1),
	} {
		require.Equal(t, want, string(appendHexdump(nil, data, 2, 16)))
	}
	// The last row is there even if it is one more of the same: it shows the length.
	require.True(t, bytes.Contains(appendHexdump(nil, make([]byte, 64), 0, 16), []byte("\n*\n0030  00")))

	// In a narrow terminal rows are shorter.
	eight := string(appendHexdump(nil, []byte("0123456789"), 0, 8))
	require.Equal(t, "0000  30 31 32 33 34 35 36 37  |01234567|\n0008  38 39                    |89|", eight)
	require.Equal(t, rowWidth(8), bytes.IndexByte([]byte(eight), '\n'))
	require.Len(t, appendHexdump(nil, make([]byte, 32), 0, 16), 2*rowWidth(16)+1)
}
