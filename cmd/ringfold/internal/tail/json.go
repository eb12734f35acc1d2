package tail

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// jsonLines prints an object per line, with the keys of "bpftool map event_pipe -j":
//
//	{"type":9,"cpu":0,"index":0,"timestamp":1000,"data":[1,2,3,4]}
//	{"type":2,"cpu":0,"index":0,"lost":{"count":5}}
//
// type is that of the perf record, index the entry of the map, timestamp in ns of CLOCK_MONOTONIC. What bpftool lacks has keys
// of its own: "map" if several are read, "late", "utc", "fields" of samples, "timestamp" and "lost"."after" of losses, "corrupt", and a
// last object with "summary". Of ring buffers, cpu is -1 and timestamp 0 if payloads do not have them.
// It has no "lost"."id", which is a number of the kernel's for the perf event.
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
		b = appendHead(b, ev, recordLost)
		b = append(b, `,"lost":{"count":`...)
		b = strconv.AppendUint(b, ev.Lost(), 10)
		b = append(b, `,"after":`...)
		b = strconv.AppendUint(b, ev.LostAfter(), 10)
		b = append(b, '}')
	case perfbuf.KindCorrupt:
		b = append(b, `"cpu":`...)
		b = strconv.AppendInt(b, int64(ev.CPU()), 10)
		b = append(b, `,"timestamp":`...)
		b = strconv.AppendUint(b, ev.Time(), 10)
		b = appendCorrupt(b, ev)
	default:
		b = appendHead(b, ev, recordSample)
		b = append(b, `,"data":[`...)
		for i, c := range ev.Bytes() {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendUint(b, uint64(c), 10)
		}
		b = append(b, ']')
		if ev.Fields != nil {
			b = append(b, `,"fields":`...)
			b = ev.Fields.AppendJSON(b)
		}
	}
	if ev.From.Label != "" {
		b = append(append(b, `,"map":`...), marshal(ev.From.Label)...)
	}
	if j.utc != 0 && ev.Time() != 0 {
		b = append(j.day(ev.Time()).AppendFormat(append(b, `,"utc":"`...), time.RFC3339Nano), '"')
	}
	if ev.Late() {
		b = append(b, `,"late":true`...)
	}
	return append(b, '}', '\n')
}

// appendHead appends the keys that bpftool has too, in its order.
func appendHead(b []byte, ev source.Event, record int64) []byte {
	b = append(b, `"type":`...)
	b = strconv.AppendInt(b, record, 10)
	b = append(b, `,"cpu":`...)
	b = strconv.AppendInt(b, int64(ev.CPU()), 10)
	b = append(b, `,"index":`...)
	b = strconv.AppendInt(b, int64(ev.CPU()), 10)
	b = append(b, `,"timestamp":`...)
	return strconv.AppendUint(b, ev.Time(), 10)
}

func appendCorrupt(b []byte, ev source.Event) []byte {
	var corrupt *perfbuf.CorruptError
	if !errors.As(ev.Err(), &corrupt) {
		return b
	}
	return append(append(b, `,"corrupt":`...), marshal(map[string]any{
		"offset": corrupt.Offset, "skipped": corrupt.Skipped, "reason": corrupt.Reason})...)
}

func (jsonLines) summary(b []byte, s *summary) []byte {
	b = append(b, `{"summary":`...)
	b = append(b, marshal(s)...)
	return append(b, "}\n"...)
}

// marshal is for values that cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only numbers and strings
	}
	return b
}
