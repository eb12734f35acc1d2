package flight

import (
	"testing"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// A merged snapshot is complete where all of its parts are, and gives their memory back once.
func TestMergeSnapshots(t *testing.T) {
	part := func(since, until uint64, o Options, released *int) *Snapshot {
		r := ringtest.NewOverwritten(1 << 12)
		for n := range uint64(50) {
			r.Output(2*n, n, 0)
		}
		c := newCopy(r.Raw, nested)
		c.began = since
		c.take()
		c.check()
		s := &Snapshot{copies: []*ringCopy{c}, release: func() { *released++ }}
		s.index(until, until, o)
		return s
	}
	var released int
	whole, partial := part(10, 90, Options{}, &released), part(20, 80, Options{Partial: true}, &released)
	gone := part(60, 70, Options{}, &released)
	gone.Release()
	m := Merge(whole, gone, partial)
	require.Equal(t, []uint64{20, 80}, []uint64{m.CompleteSince(), m.Until()})
	require.Equal(t, []Ring{{CPU: 3, Since: 10, Bytes: 1600, Events: 31}, {CPU: 3, Since: 20, Bytes: 1600, Events: 41}}, m.Rings())
	require.Equal(t, 72, m.Len())
	last, n := uint64(0), 0
	for ev := range m.Events() {
		require.LessOrEqual(t, last, ev.Time())
		last, n = ev.Time(), n+1
	}
	require.Equal(t, []int{72, 80}, []int{n, int(last)})
	for range whole.Events() {
		t.Fatal("it was taken over")
	}
	require.Equal(t, 1, released)
	whole.Release()
	m.Release()
	m.Release()
	require.Equal(t, 3, released)
	none := Merge()
	require.Zero(t, none.Len())
	require.Zero(t, none.Age())
}
