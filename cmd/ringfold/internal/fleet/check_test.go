package fleet

import (
	"io"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/agent"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/stretchr/testify/require"
)

// The demo's check finds what it is there for.
func TestChecker(t *testing.T) {
	item := func(host string, at int64) tail.Item {
		return tail.Item{Host: host, Wall: at, Time: uint64(at), Event: &wire.Event{Kind: wire.Event_EXEC}}
	}
	gap := func(reason wire.Gap_Reason, count uint64) tail.Item {
		return tail.Item{Host: "a", Wall: 10, Event: &wire.Event{Kind: wire.Event_GAP, Gap: &wire.Gap{Reason: reason, Count: count}}}
	}
	check := func(items ...tail.Item) *checker {
		c := &checker{printer: newPrinter(io.Discard, tailConfig{}), hosts: map[string]*checked{}}
		for _, i := range items {
			require.NoError(t, c.Put(i))
		}
		return c
	}
	good := check(item("a", 1), item("b", 2), item("a", 3), gap(wire.Gap_RING_FULL, 4), gap(wire.Gap_SPOOL_FULL, 5))
	require.NoError(t, good.disorder)
	lost := map[wire.Gap_Reason]uint64{wire.Gap_RING_FULL: 4}
	require.NoError(t, good.compare("a", agent.Stats{Events: 7, Lost: lost}))
	require.NoError(t, good.compare("b", agent.Stats{Events: 1}))
	require.ErrorContains(t, good.compare("a", agent.Stats{Events: 8, Lost: lost}), "a: the agent has read 8 events")
	require.Error(t, good.compare("a", agent.Stats{Events: 6, Lost: lost}))
	require.Error(t, good.compare("a", agent.Stats{Events: 7}))
	require.Error(t, good.compare("c", agent.Stats{Events: 1}))
	require.NoError(t, check(item("a", 1), gap(wire.Gap_AGENT_DOWN, 0)).compare("a", agent.Stats{Events: 8}), "nobody knows how many")
	require.Error(t, check(item("a", 1), gap(wire.Gap_HOST_SILENT, 0)).compare("a", agent.Stats{Events: 8}))

	require.ErrorContains(t, check(item("a", 2), item("b", 1)).disorder, "out of order: an event of b is printed 1ns after a later one")
	back := item("a", 3)
	back.Time = 1
	require.ErrorContains(t, check(item("a", 2), back).disorder, "out of order: a's own events")
}
