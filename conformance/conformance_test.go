package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfold/ringfold/conformance/suite"
	"github.com/stretchr/testify/require"
)

// ringfold passes every scenario that this machine can stage.
func TestRingfold(t *testing.T) {
	dir := adapter(t)
	for _, s := range all(t) {
		t.Run(s.Name, func(t *testing.T) { pass(t, s, "ringfold", dir) })
	}
}

// The other ways to read pass the least.
func TestWays(t *testing.T) {
	dir := adapter(t)
	selected, err := suite.Select(all(t), "conservation/overload,delivery/trickle,life/close-under-load")
	require.NoError(t, err)
	for _, way := range []string{"events", "records", "batches", "fold", "rings", "exact", "slack", "channels"} {
		for _, s := range selected {
			t.Run(way+"/"+s.Name, func(t *testing.T) { pass(t, s, "ringfold-"+way, dir) })
		}
	}
	overload, err := suite.Select(all(t), "overload")
	require.NoError(t, err)
	// A ring's own stream does not tell of what was shed, and perfchan has no lanes.
	for _, way := range []string{"events", "records", "batches", "fold", "exact", "slack"} {
		for _, s := range overload {
			t.Run(way+"/"+s.Name, func(t *testing.T) { pass(t, s, "ringfold-"+way, dir) })
		}
	}
}

// The kernel's wakeups alone keep single events coming: it looks by itself later than patience ends.
func TestWakeups(t *testing.T) {
	selected, err := suite.Select(all(t), "delivery/ringbuf-ping-pong,delivery/ringbuf-wakeup-flags")
	require.NoError(t, err)
	dir := adapter(t)
	for _, s := range selected {
		t.Run(s.Name, func(t *testing.T) { pass(t, s, "ringfold", dir, "poll=600000") })
	}
}

func pass(t *testing.T, s suite.Scenario, reader, dir string, settings ...string) {
	r, err := suite.Find(reader, dir)
	require.NoError(t, err)
	r.Args = append(r.Args, settings...)
	// Patience only bounds how long a failure takes.
	result := suite.Run(s, r, suite.Options{Patience: time.Minute, Short: true})
	if result.Outcome == suite.Cannot {
		if os.Getenv("RINGFOLD_REQUIRE_KERNEL") == "1" && reader == "ringfold" {
			require.Regexp(t, `-hotplug|takes (\d+ CPUs|Linux)`, result.Text, "this machine can stage it")
		}
		t.Skip(result.Text)
	}
	require.Equalf(t, suite.Passed, result.Outcome, "%s\n%s", result.Text, result.Log)
}

func all(t *testing.T) []suite.Scenario {
	all, err := suite.All()
	require.NoError(t, err)
	return all
}

// adapter builds ringfold's.
func adapter(t *testing.T) (dir string) {
	t.Helper()
	if err := suite.Probe(); err != nil {
		if os.Getenv("RINGFOLD_REQUIRE_KERNEL") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir = t.TempDir()
	out, err := exec.Command("go", "build", "-tags", "perfbuf_poison", "-o", filepath.Join(dir, "ringfold"), "./readers/ringfold").CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	return dir
}

// A page says what users expect, why, and how that is checked.
func TestPages(t *testing.T) {
	names := map[string]bool{}
	for _, s := range all(t) {
		require.Falsef(t, names[s.Name], "two scenarios are called %s", s.Name)
		names[s.Name] = true
		require.Regexpf(t, `^[A-Z].*\.$`, s.Title(), "%s: the page's first line is a sentence", s.Name)
		for _, part := range []string{"Expected:", "Kernel:", "Set-up:", "Check:"} {
			require.Containsf(t, s.Page, "\n"+part, "%s: the page lacks a part", s.Name)
		}
	}
	require.GreaterOrEqual(t, len(names), 60)
}

func TestSelect(t *testing.T) {
	selected, err := suite.Select(all(t), "life/keep,order")
	require.NoError(t, err)
	require.Equal(t, "life/keep", selected[0].Name)
	require.Equal(t, "order/per-cpu", selected[1].Name)
	_, err = suite.Select(all(t), "ordre")
	require.ErrorContains(t, err, `"ordre"`)
}

// Results of a later run take the place of those before, scenario by scenario, and the table has a column for each reader.
func TestDocument(t *testing.T) {
	scenarios := all(t)[:2]
	a, b := scenarios[0].Name, scenarios[1].Name
	r := &results{Kernel: "6.18", CPUs: "0-1"}
	one, two := suite.Reader{Name: "one", Version: "1"}, suite.Reader{Name: "two", Version: "2,libbpf-1.7"}
	r.add(one, []suite.Result{{Scenario: a, Outcome: suite.Failed, Text: "old"}, {Scenario: b, Outcome: suite.Passed, Text: "1 %"}})
	r.add(two, []suite.Result{{Scenario: a, Outcome: suite.Cannot, Text: "a|b"}})
	r.add(one, []suite.Result{{Scenario: a, Outcome: suite.Failed, Text: "hangs"}})
	path := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, r.save(path))
	r, err := read(path)
	require.NoError(t, err)
	doc := r.document(scenarios)
	require.Contains(t, doc, "| one | 1 | 1 | 1 | 0 |\n| two | 2, libbpf-1.7 | 0 | 0 | 1 |\n")
	require.Contains(t, doc, " | **failed**: hangs | cannot: a\\|b |\n")
	require.Contains(t, doc, " | passed: 1 % | not run |\n")
	require.NotContains(t, doc, "old")
}
