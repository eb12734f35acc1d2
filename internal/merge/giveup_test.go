package merge_test

import (
	"encoding/binary"
	"testing"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// A round is given up with an early record still due, after a scan in its middle that has found another one
// with a time below that. The round had to leave it behind; the next puts both in order.
func TestEarlyOnesAfterARoundGivenUp(t *testing.T) {
	m, ws := unchecked(4096, 0, 0)
	write := func(i int, times ...uint64) {
		for _, time := range times {
			require.NoError(t, ws[i].Output(time, ringtest.Payload(time, 12)))
		}
		m.Scan(i, ws[i].Head(), forever, 0)
	}
	want := func(times ...uint64) {
		t.Helper()
		for _, time := range times {
			it := next(m)
			require.NotNil(t, it)
			require.Equal(t, time, it.Time)
			require.False(t, it.Late)
		}
	}
	write(0, 100, 10, 20, 40) // all but the first are early
	write(1, 11)
	m.Begin(all)
	want(10, 11)
	write(0, 90, 30, 12, 20)
	m.End()

	m.Begin(35)
	want(12, 20, 20, 30)
	require.Nil(t, next(m))
	m.End()
	m.Begin(all)
	want(40, 90, 100)
	require.Nil(t, next(m))
	m.End()
	for _, w := range ws {
		require.Equal(t, w.Head(), w.Tail())
	}
}

// What lies behind a busy record stays in the ring when that is taken out: it is not dropped, and what was delivered of it comes again.
func TestRemoveBehindBusy(t *testing.T) {
	w := ringtest.NewRingBuf(4096, 1<<32-64)
	ring := w.Raw()
	ring.SetFields(0, -1)
	m := merge.New([]*raw.Ring{ring}, merge.Options{}, func(int, uint64) {})
	output := func(times ...uint64) {
		for _, time := range times {
			require.NoError(t, w.Output(binary.NativeEndian.AppendUint64(nil, time)))
		}
	}
	reserve := func() ringtest.Record {
		r, err := w.Reserve(8)
		require.NoError(t, err)
		return r
	}
	output(1, 9)
	busy := reserve()
	output(2, 3, 8)
	reserve().Discard(0)
	second := reserve()
	m.Scan(0, w.Head(), forever, 0)
	require.Len(t, drain(t, m, 5, 9), 3)
	second.Commit(0) // since
	require.EqualValues(t, 1, m.Remove(0), "of 9")
	require.Equal(t, busy.Off, w.Tail())
}
