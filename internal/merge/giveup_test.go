package merge_test

import (
	"testing"

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
