package top

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// jsonKeys are those of a struct, and of the structs in it.
func jsonKeys(t reflect.Type) (keys []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return jsonKeys(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			keys = append(append(keys, t.Field(i).Tag.Get("json")), jsonKeys(t.Field(i).Type)...)
		}
	}
	return keys
}

func TestJSONKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/tool.md")
	require.NoError(t, err)
	keys := jsonKeys(reflect.TypeFor[object]())
	require.Greater(t, len(keys), 40)
	for _, key := range keys {
		require.Contains(t, string(page), "`"+key+"`")
	}
}

// Every field gets its value from somewhere.
func TestJSONIsComplete(t *testing.T) {
	f := fixed(2, exact)
	f.paused, f.problem, f.choices = true, "something", 3
	s := &f.stats
	s.Late, s.MaxLateness, s.SpillUsed, s.Passes, s.ReplacedEntries = 1, time.Second, 2, 3, 4
	s.Displaced.Entries = 10
	s.Doorbell.Polls, s.Doorbell.Err = 5, errors.New("none")
	s.Barrier.Failed, s.Barrier.Max, s.Barrier.Stalled = 6, time.Second, time.Second
	s.Outputs.CPUs = []perfbuf.CPUOutputs{{Attempted: 10, Written: 4, Full: 3, NoRing: 2, Nested: 1}}
	f.total.Corrupt, f.total.Dropped = 7, 8
	f.rows = f.rows[1:]
	f.rows[0].name, f.rows[0].Dropped, f.rows[0].Armed, f.rows[0].first, f.rows[0].last = "events", 9, true, 0.5, true

	var out bytes.Buffer
	require.NoError(t, jsonLines{&out}.final(f))
	var last struct{ Summary object }
	require.NoError(t, json.Unmarshal(out.Bytes(), &last))
	o := last.Summary
	allSet(t, reflect.ValueOf(o))
	require.EqualValues(t, 1, o.Outputs.Other)
	require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")))
}

func allSet(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		require.False(t, v.IsNil())
		allSet(t, v.Elem())
	case reflect.Slice:
		require.NotZero(t, v.Len())
		allSet(t, v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
			allSet(t, v.Field(i))
		}
	}
}
