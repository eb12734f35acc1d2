package stream

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"

	"github.com/stretchr/testify/require"
)

func TestRoundIsInOrder(t *testing.T) {
	f := newFake(t, 3, Options{})
	f.output(2, 10, 40)
	f.output(0, 20, 50, 45) // interrupted
	f.output(1, 30, 60)
	f.clock = 1000
	require.Equal(t, []uint64{10, 20, 30, 40, 45, 50, 60}, f.round(false))
	for ring, n := range []uint64{3, 2, 2} {
		require.Equal(t, account{Samples: n, Freed: n * recordSize}, f.tally(ring))
	}
	require.EqualValues(t, 60, f.merger.last)
	require.EqualValues(t, 1, f.counts.Inversions.Load())
}

// Events of a batch that the user has not taken come again.
func TestRestOfABatch(t *testing.T) {
	if raw.Poison {
		t.Skip("batches are of one event")
	}
	f := newFake(t, 2, Options{})
	f.output(0, 1, 3)
	f.output(1, 2, 4)
	f.clock = 1000
	f.Begin()
	require.Len(t, f.batch(), 4)
	f.took(3)
	f.endRound()
	require.Equal(t, account{Samples: 2, Freed: 2 * recordSize}, f.tally(0))
	require.Equal(t, account{Samples: 1, Freed: recordSize}, f.tally(1))
	require.Equal(t, 1, f.merger.rings[1].samples())
	require.Equal(t, []uint64{4}, f.round(false))
}

// The stream delivers and marks a late sample, or drops it if the options say so. It never drops a
// loss.
func TestLateEvents(t *testing.T) {
	for _, drop := range []bool{false, true} {
		f := newFake(t, 2, Options{DropLate: drop})
		f.fill(1, 100, room)
		require.Error(t, f.w[1].Output(300, make([]byte, 12)))
		f.clock = 900
		require.Len(t, f.round(false), room)
		f.output(0, 800)
		require.Equal(t, []uint64{800}, f.round(false))
		f.output(1, 700) // with the loss before it
		require.Equal(t, map[bool][]uint64{false: {700, 700}, true: {700}}[drop], f.round(false))
		want := account{Samples: room + 1, Lost: 1, LostRecords: 1, Freed: f.w[1].Head()}
		if drop {
			want.Samples, want.Dropped = room, 1
		}
		require.Equal(t, want, f.tally(1))
		require.EqualValues(t, 2, f.counts.Late.Load())
		require.EqualValues(t, 100, f.counts.MaxLateness.Load())
	}
}

// Events that are given up do not count as delivered. A sample that changes after the scan is
// corrupt.
func TestCountsOfTheUnusual(t *testing.T) {
	f := newFake(t, 2, Options{})
	f.clock = 1000
	f.output(0, 1, 2, 3)
	f.output(1, 4, 5)
	f.Begin()
	clear(f.w[0].Data()[recordSize : 2*recordSize]) // the second
	for range 2 {
		n := len(f.batch())
		f.took(n)
	}
	f.endRound()
	require.Equal(t, account{Samples: 1, Corrupt: 1, Freed: 2 * recordSize}, f.tally(0))
	f.Remove(f.source)
	require.Equal(t, account{Samples: 1, Dropped: 1, Corrupt: 1, Freed: 3 * recordSize}, f.tally(0))
	require.Equal(t, account{Dropped: 2, Freed: 2 * recordSize}, f.tally(1))
}

// The stream chooses the watermark before it looks for new rings. A ring that comes later may have
// events older than those held. The events of a ring that comes earlier are in order.
func TestNewRings(t *testing.T) {
	f, b := exact(t, 1)
	f.clock = 5e6
	f.output(0, 2e6)
	f.looks = func() {
		f.looks = nil
		require.NoError(t, b.Round()) // now the watermark covers the event
	}
	require.Empty(t, f.round(false))
	f.looks = func() {
		f.looks = nil
		f.add()
		f.output(1, 1e6)
	}
	require.Equal(t, []uint64{1e6, 2e6}, f.round(false))
	require.Equal(t, 2, len(f.merger.rings))
	require.Zero(t, f.counts.Late.Load())
}

// A round asks for a barrier for the events it leaves, if the barrier would cover them.
func TestRoundAsksForABarrier(t *testing.T) {
	f, b := exact(t, 1)
	f.clock = 1e6
	f.round(false)
	require.False(t, b.Requested(), "nothing is held")
	f.output(0, 1e6)
	f.clock += guard + 1
	f.round(false)
	require.False(t, b.Requested(), "it would not be covered")
	f.clock++
	f.round(false)
	require.True(t, b.Requested())
}

// A long round relieves rings that fill up during it. The events found there wait for the next
// round.
func TestRoundChecksForFullRings(t *testing.T) {
	f := newFake(t, 1+checkEvery/room+1, Options{Spill: 1 << 20})
	f.clock = 1e6
	for i := range f.w[1:] {
		f.fill(1+i, 1000, room)
	}
	f.Begin()
	f.counts.Spilled.Store(0)
	f.fill(0, 1, room) // while the first batch is with the user
	n := 0
	for evs := f.batch(); len(evs) > 0; evs = f.batch() {
		n += len(evs)
		f.took(len(evs))
	}
	f.endRound()
	require.Equal(t, (len(f.w)-1)*room, n)
	require.LessOrEqual(t, f.w[0].Head()-f.w[0].Tail(), uint64(ringSize/4))
	require.Positive(t, f.counts.Spilled.Load())
	require.Len(t, f.round(false), room)
}

// stamped makes a stream of n ring buffers whose records are stamped after their reservation.
func stamped(t *testing.T, n int) (*fake, []*ringtest.RingBuf) {
	f := newFake(t, 0, Options{})
	var bufs []*ringtest.RingBuf
	for range n {
		w := ringtest.NewRingBuf(ringSize, 0)
		r := &Ring{Raw: w.Raw()}
		r.Raw.SetFields(0, -1)
		f.rings.Add(r)
		bufs = append(bufs, w)
	}
	f.source.Stamped = true
	return f, bufs
}

// Stamps are later than the clock before the load of the heads, less the guard. The stream is
// complete up to then, even if the clock has moved on when all heads are loaded.
func TestStampedAreCompleteUpToTheLoadOfHeads(t *testing.T) {
	f, bufs := stamped(t, 2)
	f.clock = 1e6
	missed := f.clock - guard // on a CPU whose clock is behind
	looks := 0
	f.looks = func() {
		if looks++; looks == 3 { // between the loads of the two heads
			require.NoError(t, bufs[0].Output(binary.NativeEndian.AppendUint64(nil, missed)))
			f.clock += 1e6
		}
	}
	require.Empty(t, f.round(false))
	require.NotZero(t, f.Complete())
	require.Less(t, f.Complete(), missed)
	require.Equal(t, []uint64{missed}, f.round(false))
}

// A busy record, stamped but not yet committed, bounds the time that the last round proves.
func TestLastRoundBehindABusyRecord(t *testing.T) {
	f, bufs := stamped(t, 1)
	f.clock = 1e6
	require.Empty(t, f.round(false))
	_, err := bufs[0].Reserve(8)
	require.NoError(t, err)
	f.clock = 2e6
	f.BeginAll(f.clock)
	require.Empty(t, f.batch())
	f.endRound()
	require.Less(t, f.Complete(), uint64(1e6))
}

// A drain delivers events up to its extent and those that are proven. It begins once no busy record
// can come before that.
func TestDrainDeliversWhatIsProven(t *testing.T) {
	f := newFake(t, 2, Options{Slack: time.Hour})
	f.clock = 5e6
	f.output(0, 1e6, 3e6)
	require.EqualValues(t, 3e6, f.Extent())
	f.output(0, 4e6)
	f.output(1, 2e6, 3e6, 3e6+1)
	require.Zero(t, f.BeginDrain(1e6, 2e6, 3e6))
	require.Equal(t, []uint64{1e6, 2e6, 3e6, 3e6}, f.delivered())
	require.EqualValues(t, 2e6-guard-1, f.Complete())
	require.True(t, f.passed(1e6))
	require.Zero(t, f.BeginDrain(5e6, 4e6, 3e6))
	require.Equal(t, []uint64{3e6 + 1}, f.delivered(), "4e6 is not proven")

	f, bufs := stamped(t, 1)
	f.clock = 1e6
	require.Empty(t, f.round(false))
	rec, err := bufs[0].Reserve(8)
	require.NoError(t, err)
	require.NoError(t, bufs[0].Output(binary.NativeEndian.AppendUint64(nil, 1.7e6)))
	f.clock = 2e6
	require.EqualValues(t, 1.7e6, f.Extent())
	require.Positive(t, f.BeginDrain(2e6, 2e6, 1.7e6))
	rec.Write(0, binary.NativeEndian.AppendUint64(nil, 1.5e6))
	rec.Commit(0)
	require.Zero(t, f.BeginDrain(2e6, 2e6, 1.7e6))
	require.Equal(t, []uint64{1.5e6, 1.7e6}, f.delivered())
}

// The stream asks about a ring that refused an output during a round, even if the next look finds
// room.
func TestRingThatFilledUpDuringARound(t *testing.T) {
	f := newFake(t, 1, Options{})
	f.clock = 1e9
	f.fill(0, 1, 50)
	f.Begin()
	f.took(len(f.batch()))
	f.fill(0, 100, 40)
	require.Error(t, f.w[0].Output(200, make([]byte, ringSize/3)))
	for evs := f.batch(); len(evs) > 0; evs = f.batch() {
		f.took(len(evs))
	}
	f.endRound()
	for range 2 {
		f.clock += uint64(AskAfter)
		f.round(false)
	}
	require.Contains(t, f.asked, 0)
	require.EqualValues(t, 1, f.tally(0).Lost)
}
