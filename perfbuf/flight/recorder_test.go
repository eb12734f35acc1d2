package flight

import (
	"os"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// underWay simulates a machine on which a program outputs in each grace period, at its end, an
// event with a time before it.
type underWay struct {
	kernel.Kernel // the methods not called
	ring          *ringtest.Overwritten
	clock         uint64
	waits         []uint64 // when they began
	owned         kernel.Displaced
	looks         []int // after how many waits

	waiting func() // called in each wait
}

func (k *underWay) Displaced() kernel.Displaced {
	k.looks = append(k.looks, len(k.waits))
	return k.owned
}

func (k *underWay) Rings() []*raw.Ring { return []*raw.Ring{k.ring.Raw} }

func (k *underWay) Watch(func([]int, uint64)) {}

func (k *underWay) Set(int, kernel.Entry) error { return nil }

func (k *underWay) Bells() error { return nil }

func (k *underWay) Replaced() int { return 0 }

// record returns a recorder whose ring began at time 0.
func (k *underWay) record(o Options) *Recorder {
	return newRecorder(k, gracePeriods{k: k}, o, 0, nested)
}

type gracePeriods struct {
	grace.Provider // the methods not called
	k              *underWay
}

func (k *underWay) Now() uint64 {
	k.clock += 1000
	return k.clock
}

func (p gracePeriods) Wait() error {
	k := p.k
	k.waits = append(k.waits, k.clock)
	if k.waiting != nil {
		k.waiting()
	}
	k.ring.Output(k.clock-grace.DefaultGuard, uint64(len(k.waits)), 0)
	return nil
}

// A snapshot has the outputs that were under way at the call. It ends before any output that may
// begin during its wait, on a CPU whose clock is behind by the guard.
func TestSnapshotBesideOutputsUnderWay(t *testing.T) {
	k := &underWay{ring: ringtest.NewOverwritten(1 << 12), clock: 1 << 30}
	k.ring.PutSample(k.clock, 0, 0) // is published within the first wait
	called := k.clock
	s, err := k.record(Options{}).Snapshot(t.Context())
	require.NoError(t, err)
	require.Len(t, k.waits, 2)
	require.Greater(t, s.Until(), called)
	require.Less(t, s.Until(), k.waits[0]-grace.DefaultGuard, "what begins in the wait")
	var times []uint64
	for ev := range s.Events() {
		times = append(times, ev.Time())
	}
	require.Equal(t, []uint64{called}, times)
}

// Once another reader has taken entries, a snapshot claims nothing later than the last check that
// saw them to be the recorder's. It still has every event in the rings.
func TestSnapshotOfATakenMap(t *testing.T) {
	const early, late, call = 1<<30 - 5e6, 1<<30 - 1e6, 1 << 30
	const cut = late - grace.DefaultGuard
	for name, c := range map[string]struct {
		minAge       time.Duration
		owned        kernel.Displaced
		until, since uint64
		times        []uint64
	}{
		"not taken":          {0, kernel.Displaced{OwnedUntil: late}, call, 0, []uint64{early, late}},
		"not known":          {0, kernel.Displaced{Err: os.ErrPermission}, call, 0, []uint64{early, late}},
		"taken":              {0, kernel.Displaced{Entries: 1, OwnedUntil: late}, cut, 0, []uint64{early, late}},
		"taken after a look": {0, kernel.Displaced{Entries: 1, OwnedUntil: 1 << 31}, call, 0, []uint64{early, late}},
		"cannot look since":  {0, kernel.Displaced{Entries: 1, OwnedUntil: late, Err: os.ErrPermission}, cut, 0, []uint64{early, late}},
		"with an age":        {1e6, kernel.Displaced{Entries: 1, OwnedUntil: late}, cut, cut + 1 - 1e6, []uint64{late}},
	} {
		t.Run(name, func(t *testing.T) {
			k := &underWay{ring: ringtest.NewOverwritten(1 << 12), clock: call - 1000, owned: c.owned}
			k.ring.Output(early, 0, 0)
			k.ring.Output(late, 0, 0)
			s, err := k.record(Options{MinAge: c.minAge}).Snapshot(t.Context())
			require.NoError(t, err)
			require.Equal(t, []int{1}, k.looks, "the programs that began before the call have ended by the look")
			require.Equal(t, c.until, s.Until())
			require.Equal(t, c.since, s.CompleteSince())
			var times []uint64
			for ev := range s.Events() {
				times = append(times, ev.Time())
			}
			require.Equal(t, c.times, times)
		})
	}
}

// The ring of a CPU that came back is complete once all outputs find its new event, and no sooner.
func TestRenewedRingBegins(t *testing.T) {
	k := &underWay{ring: ringtest.NewOverwritten(1 << 12), clock: 1 << 30}
	r := k.record(Options{})
	k.waiting = func() { require.EqualValues(t, uint64(never), r.now()[0].began) }
	require.NoError(t, r.renew(0))
	require.Len(t, k.waits, 1)
	require.Greater(t, r.now()[0].began, k.waits[0])
	require.Equal(t, uint64(1), r.stats.Plugged)
}
