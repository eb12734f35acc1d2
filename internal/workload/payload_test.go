package workload

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Check accepts the programs' payloads, padded or not, and finds each byte that differs.
func TestCheckFindsDamage(t *testing.T) {
	for _, size := range []int{HeaderSize, HeaderSize + 3, CheckedSize, CheckedSize + 1, 61, 4096} {
		want := Payload{Seq: 1000, CPU: 3, Level: 1, Source: Switch, Size: size, Time: 77}
		b := want.Bytes()
		p, err := Check(b)
		require.NoError(t, err)
		require.Equal(t, want, p)
		padded := append(bytes.Clone(b), make([]byte, Padded(size)-size)...)
		_, err = Check(padded)
		require.NoError(t, err)
		_, err = Check(append(padded, 0))
		require.Error(t, err)
		for i := range b {
			b[i] ^= 4
			p, err := Check(b)
			require.Truef(t, err != nil || p != want, "byte %d of %d", i, size)
			require.Truef(t, err != nil || size < CheckedSize, "byte %d of %d", i, size)
			b[i] ^= 4
		}
	}
	_, err := Check(make([]byte, HeaderSize-1))
	require.Error(t, err)
	require.NoError(t, CheckShort([]byte{7, 0, 0, 0}, 7, 3))
	require.Error(t, CheckShort([]byte{8, 0, 0, 0}, 7, 3))
	require.NoError(t, CheckBare(pattern[:64]))
	require.Error(t, CheckBare(pattern[8:64]))
}

func TestAccount(t *testing.T) {
	var a Account
	missing, err := a.Take(Payload{Seq: 3})
	require.NoError(t, err)
	require.EqualValues(t, 3, missing)
	_, err = a.Take(Payload{Seq: 0, Level: 1})
	require.NoError(t, err)
	_, err = a.Take(Payload{Seq: 3})
	require.ErrorContains(t, err, "comes again")
	a.Lose(3)
	require.EqualValues(t, 3, a.Samples)
	require.EqualValues(t, 3, a.Lost)
}

func TestBalance(t *testing.T) {
	c := Counts{Attempted: 21, Written: 1, Full: 2, Busy: 3, NoRing: 4, Off: 5, Other: 6}
	require.NoError(t, c.Balance(Outcome{0, 1, 2}, true))
	require.NoError(t, c.Balance(Outcome{Delivered: 1}, false))
	require.EqualError(t, c.Balance(Outcome{Delivered: 1}, true), "2 outputs found no room, but 0 count as lost: -2")
	require.EqualError(t, c.Balance(Outcome{Delivered: 1, Lost: 3}, false), "2 outputs found no room, but 3 count as lost: +1")
	require.EqualError(t, c.Balance(Outcome{2, 1, 2}, true), "1 outputs succeeded, but 2 were delivered + 1 dropped: +2")
	require.EqualError(t, c.Balance(Outcome{Lost: 2}, true), "1 outputs succeeded, but 0 were delivered + 0 dropped: -1")
}

func TestAgree(t *testing.T) {
	seen := make([]CPUCounts, 1)
	seen[0].Levels[1] = Counts{Attempted: 21, Written: 1, Full: 2, Busy: 3, NoRing: 4, Off: 5, Other: 6}
	require.Empty(t, Agree(seen))
	seen[0].Levels[1].NoRing++
	require.Len(t, Agree(seen), 1)
	require.Equal(t, Counts{Attempted: 21, Written: 1, Full: 2, Busy: 3, NoRing: 5, Off: 5, Other: 6}, seen[0].Sum())
	since := seen[0].Since(&seen[0])
	require.Zero(t, since.Sum())
}
