package record

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/otlp/otlptest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/recordingtest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	pb "go.opentelemetry.io/proto/otlp/logs/v1"
)

func collector(t *testing.T, answer func(context.Context, *otlptest.Request) (*otlptest.Answer, error)) *otlptest.Collector {
	t.Helper()
	c, err := otlptest.Start("127.0.0.1:0", answer)
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	return c
}

// attributes are those of a record, and the members of a body, as text.
func attributes(all []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range all {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.GetKey()] = fmt.Sprint(v.IntValue)
		default:
			m[kv.GetKey()] = fmt.Sprint(kv.GetValue())
		}
	}
	return m
}

// exported runs a command that must do well, and returns its summary.
func exported(t *testing.T, args ...string) summary {
	t.Helper()
	status, stdout, stderr := run(t, append(args, "--json")...)
	require.Zero(t, status, stderr)
	var one line
	require.NoError(t, json.Unmarshal([]byte(stdout), &one))
	return *one.Summary
}

// Every event of a recording arrives, in order, and the sums of records are those of the recording.
func TestExport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.data")
	events, lost := recordingtest.Lossy(t, file, 2000)
	c := collector(t, nil)
	s := exported(t, file, "-w", c.URL()+"?service=agent")
	require.Equal(t, c.URL(), s.File)
	require.Equal(t, []uint64{events, lost}, []uint64{s.Events, s.Lost})
	require.NotZero(t, s.Bytes)

	var samples, failed, last uint64
	for i, r := range c.Records() {
		a := attributes(r.GetAttributes())
		require.GreaterOrEqual(t, r.GetTimeUnixNano(), last)
		last = r.GetTimeUnixNano()
		require.NotZero(t, r.GetObservedTimeUnixNano())
		require.True(t, strings.HasSuffix(a["log.record.uid"], fmt.Sprintf("-%d", i+1)), a)
		switch a["ringfold.kind"] {
		case "sample":
			samples++
			require.Equal(t, pb.SeverityNumber_SEVERITY_NUMBER_INFO, r.GetSeverityNumber())
			n := binary.LittleEndian.Uint32(r.GetBody().GetBytesValue())
			require.Equal(t, fmt.Sprint(n%2), a["cpu.logical_number"])
		case "lost":
			var n uint64
			fmt.Sscan(a["ringfold.count"], &n)
			failed += n
			require.Equal(t, pb.SeverityNumber_SEVERITY_NUMBER_WARN, r.GetSeverityNumber())
			require.Equal(t, "WARN", r.GetSeverityText())
			require.Equal(t, "ringfold.lost", r.GetEventName())
			require.Less(t, a["ringfold.after"], fmt.Sprint(r.GetTimeUnixNano()))
			require.Contains(t, r.GetBody().GetStringValue(), "outputs failed")
		default:
			require.Fail(t, "unexpected", "%v", r)
		}
	}
	require.Equal(t, []uint64{events, lost}, []uint64{samples, failed})
	require.Equal(t, "agent", attributes(c.Requests()[0].GetResourceLogs()[0].GetResource().GetAttributes())["service.name"])
}

// With a type, fields are the body, and filters work.
func TestExportFields(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.data")
	payload := make([]byte, 40)
	copy(payload[8:], "bash")
	var payloads [][]byte
	for i := range 10 {
		payloads = append(payloads, append([]byte{byte(i)}, payload[1:]...))
	}
	clitest.Recording(t, file, perfdata.Options{}, time.Microsecond, payloads...)
	c := collector(t, nil)
	s := exported(t, file, "-w", c.URL(), "--type", "event", "--btf", "../../testdata/exec.bpf.o", "--filter", "pid >= 4")
	require.Equal(t, []uint64{6, 4}, []uint64{s.Events, s.Filtered})
	require.Len(t, c.Records(), 6)
	r := c.Records()[0]
	require.Equal(t, "event", r.GetEventName())
	require.Equal(t, "output", attributes(r.GetAttributes())["ringfold.source"])
	body := attributes(r.GetBody().GetKvlistValue().GetValues())
	require.Equal(t, map[string]string{"pid": "4", "ret": "0", "comm": "bash", "args": ""}, body)
}

// A collector that comes late gets everything, and a note says what is waited for.
func TestExportWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.data")
	events, lost := recordingtest.Lossy(t, file, 2000)
	c := collector(t, nil)
	c.Stop()
	r := clitest.Start(t, "waiting for the collector at "+c.URL(), Command, file, "-w", c.URL(), "--json")
	late, err := otlptest.Start(c.Address, nil)
	require.NoError(t, err)
	defer late.Stop()
	s := summed(t, r)
	require.Equal(t, []uint64{events, lost}, []uint64{s.Events, s.Lost})
	require.EqualValues(t, events, len(late.Records())-strings.Count(fmt.Sprint(late.Records()), "outputs failed"))
	require.Contains(t, r.Notes.String(), "is back")
}

// Events of a map have the time of day.
func TestExportMap(t *testing.T) {
	e := kerneltest.Load(t)
	c := collector(t, nil)
	begin := time.Now()
	r := start(t, "id", id(t, e.MapFD()), "--json", "-w", c.URL(), "-n", "50")
	for i := range 50 {
		e.Emit(i%2, 1, 40)
	}
	s := summed(t, r)
	require.EqualValues(t, 50, s.Events)
	require.Len(t, c.Records(), 50)
	for _, record := range c.Records() { // clocks are read one after the other
		at := time.Unix(0, int64(record.GetTimeUnixNano()))
		require.WithinRange(t, at, begin.Add(-time.Minute), time.Now().Add(time.Minute))
	}
}

func TestExportMisuse(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
		"id 1 -w otlp://a -z":              "--compress and --flight are for files",
		"id 1 -w otlp://a --flight 1s":     "--compress and --flight are for files",
		"id 1 -w otlp://a --max-size 1MiB": "--compress and --flight are for files",
		"id 1 -w otlp://a/x":               "--write: an address ends with the port",
	})
	status, _, stderr := run(t, "../../../../perfbuf/perfdata/testdata/golden.perf.data", "-w", "otlp://127.0.0.1:1")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "does not have the time of day")
}

// What is missing for another reason than a full ring says that.
func TestExportGap(t *testing.T) {
	var b bytes.Buffer
	_, err := perfdata.NewRecorder(&b, perfdata.Options{})
	require.NoError(t, err)
	file, c := filepath.Join(t.TempDir(), "gap.data"), collector(t, nil)
	require.NoError(t, os.WriteFile(file, perfdata.Gap{Reason: "agent down", Count: 3, Time: 5}.Append(b.Bytes()), 0o600))
	require.EqualValues(t, 3, exported(t, file, "-w", c.URL()).Lost)
	require.Len(t, c.Records(), 1)
	require.Equal(t, "agent down", c.Records()[0].Body.GetStringValue())
	require.Equal(t, "agent down", attributes(c.Records()[0].Attributes)["ringfold.reason"])
}
