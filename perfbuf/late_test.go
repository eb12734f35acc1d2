package perfbuf

import (
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// With DropLate, late samples are dropped and counted; what comes in time is not.
func TestDropLate(t *testing.T) {
	k := newFake(t, 2, Options{})
	s, err := k.Ordered(OrderOptions{Mode: Slack(0), DropLate: true})
	require.NoError(t, err)
	k.output(0, 700, 800)
	require.Equal(t, []uint64{700, 800}, ids(t, s))
	k.output(1, 650, 750, 800, 900)
	k.output(0, 790, 850)
	require.Equal(t, []uint64{800, 850, 900}, ids(t, s))
	st := k.Stats()
	require.EqualValues(t, 3, st.Late)
	require.Equal(t, 150*time.Nanosecond, st.MaxLateness)
	require.EqualValues(t, 1, st.Rings[0].Dropped)
	require.EqualValues(t, 2, st.Rings[1].Dropped)
	for _, w := range k.w {
		require.Equal(t, w.Head(), w.Tail(), "what is dropped is consumed")
	}
	require.NoError(t, k.Close())
	k.account(t, 0, 4)
	k.account(t, 1, 4)
}

// Losses and corrupt memory are delivered though they are late.
func TestDropLateKeepsLossesAndDamage(t *testing.T) {
	k := newFake(t, 2, Options{})
	s, err := k.Ordered(OrderOptions{Mode: Slack(0), DropLate: true})
	require.NoError(t, err)
	n := uint64(k.fill(0, 1000))
	require.Len(t, ids(t, s), int(n))
	k.output(1, 9000)
	require.Equal(t, []uint64{9000}, ids(t, s))

	k.output(0, 5500) // late, and so is the loss it reports
	k.w[0].PutHeader(ringtest.TypeSample, 4, 48)
	recs := copies(t, s)
	require.Len(t, recs, 2)
	require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Time: 5500, Lost: 1, After: 999 + n, Late: true}, recs[0])
	require.Equal(t, KindCorrupt, recs[1].Kind)
	require.False(t, recs[1].Late)
	st := k.Stats()
	require.EqualValues(t, 2, st.Late)
	require.EqualValues(t, 1, st.Rings[0].Dropped)
	require.EqualValues(t, 1, st.Rings[0].Lost)
}

// Dropping everything does not end a pass, or a wait, early.
func TestDropLateWithinAPass(t *testing.T) {
	k := newFake(t, 2, Options{})
	s, err := k.Ordered(OrderOptions{Mode: Slack(0), DropLate: true})
	require.NoError(t, err)
	k.output(0, 1000)
	require.Len(t, ids(t, s), 1)
	k.output(1, seq(1, 100)...)
	require.Empty(t, ids(t, s))
	require.EqualValues(t, 100, k.Stats().Rings[1].Dropped)
	require.Zero(t, k.Stats().Rings[1].Samples)
	k.output(1, 1001)
	require.Equal(t, []uint64{1001}, ids(t, s))
}
