package tail

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	fleetclock "github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// jsonLines prints an object per line, with the keys of "bpftool map event_pipe -j":
//
//	{"type":9,"cpu":0,"index":0,"timestamp":1000,"data":[1,2,3,4]}
//	{"type":2,"cpu":0,"index":0,"lost":{"count":5}}
//
// type is that of the perf record, index the entry of the map, timestamp in ns of CLOCK_MONOTONIC. bpftool
// lacks "map", if several are read, "late", "utc", "fields" of samples, "timestamp" and "lost"."after" of
// losses, "shed", "corrupt", and a last object with "summary". Of ring buffers, cpu is -1 and timestamp 0 if
// payloads do not have them. Of a fleet's hosts there are "host", "error_ns", by how much the time may be
// wrong if that is known, and "lost"."reason" of what is missing for another reason than a full ring.
// There is no "lost"."id", which is a number of the kernel's for the perf event.
type jsonLines struct{ clock }

// Types of perf records: include/uapi/linux/perf_event.h.
const (
	recordLost   = 2
	recordSample = 9
)

func (jsonLines) header(b []byte) []byte { return b }

func (j jsonLines) event(b []byte, ev source.Event) []byte {
	b = append(b, '{')
	switch ev.Kind() {
	case perfbuf.KindLost:
		b = fmt.Appendf(appendHead(b, ev, recordLost), `,"lost":{"count":%d,"after":%d`, ev.Lost(), ev.LostAfter())
		if ev.Reason() != "" {
			b = append(append(b, `,"reason":`...), marshal(ev.Reason())...)
		}
		b = append(b, '}')
	case perfbuf.KindShed:
		b = fmt.Appendf(b, `"cpu":%d,"timestamp":%d,"shed":{"lane":%d,"count":%d,"after":%d}`, ev.CPU(), ev.Time(), ev.Lane(), ev.Lost(), ev.LostAfter())
	case perfbuf.KindCorrupt:
		b = fmt.Appendf(b, `"cpu":%d,"timestamp":%d`, ev.CPU(), ev.Time())
		var corrupt *perfbuf.CorruptError
		if errors.As(ev.Err(), &corrupt) {
			b = fmt.Appendf(b, `,"corrupt":{"offset":%d,"reason":%s,"skipped":%d}`, corrupt.Offset, marshal(corrupt.Reason), corrupt.Skipped)
		}
	default:
		b = append(appendHead(b, ev, recordSample), `,"data":[`...)
		for i, c := range ev.Bytes() {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendUint(b, uint64(c), 10)
		}
		b = append(b, ']')
		if ev.Fields != nil {
			b = ev.Fields.AppendJSON(append(b, `,"fields":`...))
		}
	}
	if ev.From.Label != "" {
		b = append(append(b, `,"map":`...), marshal(ev.From.Label)...)
	}
	if ev.From.Live != nil {
		b = append(append(b, `,"host":`...), marshal(ev.From.Host)...)
		if wrong := ev.From.Live.Error(ev.Time()); ev.From.Host != "" && wrong < fleetclock.Unknown {
			b = fmt.Appendf(b, `,"error_ns":%d`, wrong)
		}
	}
	if j.zone != nil && ev.Time() != 0 {
		b = append(j.day(ev.Time()).UTC().AppendFormat(append(b, `,"utc":"`...), time.RFC3339Nano), '"')
	}
	if ev.Late() {
		b = append(b, `,"late":true`...)
	}
	return append(b, '}', '\n')
}

// appendHead appends the keys that bpftool has too, in its order.
func appendHead(b []byte, ev source.Event, record int) []byte {
	return fmt.Appendf(b, `"type":%d,"cpu":%d,"index":%[2]d,"timestamp":%d`, record, ev.CPU(), ev.Time())
}

func (jsonLines) summary(b []byte, s *summary) []byte {
	return fmt.Appendf(b, "{\"summary\":%s}\n", marshal(s))
}

// marshal is for values that cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only numbers and strings
	}
	return b
}
