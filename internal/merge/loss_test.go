package merge_test

import (
	"encoding/binary"
	"testing"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// A loss comes right before the sample that reported it, whatever other rings
// hold of the same time, and says since when outputs have failed.
func TestLossComesBeforeItsSample(t *testing.T) {
	b := newBench(t, 3, 256, 0)
	for i := uint64(10); b.output(1, i, 12); i++ {
	}
	last := b.lanes[1].max
	b.output(0, 100, 12)
	b.output(2, 100, 12)
	b.round(50)
	require.True(t, b.output(1, 100, 12), "the ring is empty: this reports the loss")
	b.scanAll()
	due := b.due(all)
	require.Len(t, due, 4)
	require.Equal(t, []int{0, 1, 1, 2}, []int{due[0].ring, due[1].ring, due[2].ring, due[3].ring})
	require.Equal(t, raw.Lost, due[1].kind)
	require.Equal(t, last, due[1].after)
	b.round(all)
	require.Equal(t, 1, b.lost)
	b.empty()
}

func TestLossThatComesFirstHasNoBound(t *testing.T) {
	b := newBench(t, 1, 256, 0)
	for b.output(0, 5, 12) {
	}
	b.lanes[0].SetTail(b.lanes[0].Head()) // read before the merger came
	l := b.lanes[0]
	m := merge.New([]*raw.Ring{l.raw}, merge.Options{}, func(int, uint64) {})
	require.NoError(t, l.Output(9, ringtest.Payload(1, 12)))
	m.Scan(0, l.Head(), forever, 0)
	m.Begin(all)
	it := next(m)
	require.Equal(t, raw.Lost, it.Kind)
	require.Equal(t, uint64(1), it.Lost)
	require.Equal(t, uint64(9), it.Key)
	require.Zero(t, it.After)
}

// A loss without a time of its own comes with its sample all the same.
func TestLossWithoutTimeComesBeforeItsSample(t *testing.T) {
	b := newBench(t, 1, 512, 0)
	lost := binary.NativeEndian.AppendUint64(make([]byte, 8), 3) // id, lost: as without sample_id_all
	b.output(0, 10, 12)
	b.lanes[0].Put(ringtest.TypeLost, lost)
	b.output(0, 20, 12)
	b.lanes[0].pending = nil // the model knows no such records
	b.scanAll()
	b.m.Begin(all)
	for _, want := range []struct {
		kind raw.Kind
		key  uint64
	}{{raw.Sample, 10}, {raw.Lost, 20}, {raw.Sample, 20}} {
		it := next(b.m)
		require.NotNil(t, it)
		require.Equal(t, want.kind, it.Kind)
		require.Equal(t, want.key, it.Key)
		require.False(t, it.Late)
	}
	require.Nil(t, next(b.m))
}

// The kernel writes these when an interrupt has reported the losses meanwhile.
func TestLossOfNothingIsNotDelivered(t *testing.T) {
	b := newBench(t, 1, 512, 0)
	nothing := make([]byte, 24)
	b.lanes[0].Put(ringtest.TypeLost, nothing)
	b.output(0, 10, 12)
	b.lanes[0].Put(ringtest.TypeLost, nothing)
	b.round(all)
	require.Equal(t, 1, b.delivered)
	b.empty()
}

func TestUnknownRecordsAreCountedAndPassedOver(t *testing.T) {
	b := newBench(t, 2, 512, 0)
	for i := range 5 {
		b.throttle(0, 8*i)
		b.output(0, uint64(10+i), 12)
	}
	b.round(12)
	require.Equal(t, 3, b.delivered)
	b.round(all)
	require.Equal(t, merge.Found{Unknown: 5}, b.found)
	b.empty()
}

// An interrupt's record with a later time can lie before the loss and the sample that reports it. The
// model wants them by time, and of equal times the loss first.
func TestLossOutOfOrderComesBeforeItsSampleToo(t *testing.T) {
	b := newBench(t, 1, 512, 0)
	require.True(t, b.output(0, 1100, 12))
	for b.output(0, 1200, 100) { // until one is lost
	}
	b.scanAll()
	b.round(1200)
	require.True(t, b.output(0, 1190, 12))
	require.Len(t, b.lanes[0].pending, 2, "the loss and the sample")
	b.scanAll()
	b.round(all)
	require.Equal(t, 1, b.lost)
	b.over()
}
