package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

func sample() *Batch {
	return &Batch{
		Host: "web-1.example", BootId: "b", LogId: "l", Sequence: 7, First: 5, Prior: "k", BaseTime: 1000, Since: 990, Watermark: 1500, WallOffset: -5, WallError: 9,
		Events: []*Event{
			{Kind: Event_FORK, Cpu: 1, Pid: 2, Tid: 3, OtherPid: 4, OtherTid: 5, Comm: "sh"},
			{Kind: Event_EXEC, Delta: 3, Comm: "true", Detail: "/bin/true"},
			{Kind: Event_GAP, Delta: 3, Gap: &Gap{Reason: Gap_RING_FULL, Count: 4, After: 1003}},
			{Kind: Event_EXIT, Delta: 8, Code: -1},
		},
	}
}

func TestThereAndBack(t *testing.T) {
	data, err := Marshal(sample())
	require.NoError(t, err)
	b, err := Unmarshal(data)
	require.NoError(t, err)
	require.True(t, proto.Equal(sample(), b))
	require.Equal(t, "l/7", ID(b))

	// A heartbeat has no events, and no place yet.
	data, err = Marshal(&Batch{Host: "a", BootId: "b", LogId: "early"})
	require.NoError(t, err)
	data, err = AppendPlace(data, &Batch{Host: "none of this", LogId: "l", Sequence: 3, First: 2, Prior: "k"})
	require.NoError(t, err)
	b, err = Unmarshal(data)
	require.NoError(t, err)
	require.True(t, proto.Equal(&Batch{Host: "a", BootId: "b", LogId: "l", Sequence: 3, First: 2, Prior: "k"}, b))
}

func TestSubject(t *testing.T) {
	for host, want := range map[string]string{
		"web-1": "EVENTS.web-1", "a.b.c": "EVENTS.a_b_c", "a b>*\n": "EVENTS.a_b___", "é_Z": "EVENTS.__Z", "": "EVENTS.",
	} {
		require.Equal(t, want, Subject("EVENTS", host))
	}
}

// Writing and reading a batch fail with the same reason.
func TestMalformed(t *testing.T) {
	for want, change := range map[string]func(b *Batch){
		"its host is missing":                                      func(b *Batch) { b.Host = "" },
		"its boot_id is missing":                                   func(b *Batch) { b.BootId = "" },
		`its host has characters that cannot be printed: "a\nb"`:   func(b *Batch) { b.Host = "a\nb" },
		`its host has characters that cannot be printed: "\x1b[2"`: func(b *Batch) { b.Host = "\x1b[2" },
		"it begins at 1501, after its watermark 1500":              func(b *Batch) { b.Since = 1501 },
		"more than 16384":                                          func(b *Batch) { b.Events = make([]*Event, MaxEvents+1) },
		"event 4 of 4 is not in the order of time: delta 2 after 3": func(b *Batch) {
			b.Events[3].Delta = 2
		},
		"event 1 of 4 has a comm of 65 bytes, more than 64":                      func(b *Batch) { b.Events[0].Comm = strings.Repeat("x", 65) },
		"event 2 of 4 has a detail of 5000 bytes, more than 4096":                func(b *Batch) { b.Events[1].Detail = strings.Repeat("x", 5000) },
		"event 3 of 4 is a gap, and does not say which":                          func(b *Batch) { b.Events[2].Gap = nil },
		"event 1 of 4 is of kind FORK, and has a gap":                            func(b *Batch) { b.Events[0].Gap = &Gap{} },
		"event 3 of 4 is a gap that begins at 1004, after its end at 1003":       func(b *Batch) { b.Events[2].Gap.After = 1004 },
		"event 2 of 4 has a time beyond 64 bits: base_time 18446744073709551615": func(b *Batch) { b.BaseTime = 1<<64 - 1 },
	} {
		b := sample()
		change(b)
		_, err := Marshal(b)
		require.ErrorIs(t, err, ErrMalformed)
		require.ErrorContains(t, err, want)
		if strings.Contains(want, "16384") {
			for i := range b.Events {
				b.Events[i] = new(Event)
			}
		}
		data, merr := proto.Marshal(b)
		require.NoError(t, merr)
		_, err = Unmarshal(data)
		require.ErrorIs(t, err, ErrMalformed)
		require.ErrorContains(t, err, want)
	}

	for want, change := range map[string]func(b *Batch){
		"its log_id is missing":                   func(b *Batch) { b.LogId = "" },
		"its log_id has 256 bytes, more than 255": func(b *Batch) { b.LogId = strings.Repeat("x", 256) },
		"its prior has characters":                func(b *Batch) { b.Prior = "\x00" },
		"its sequence number is 0":                func(b *Batch) { b.Sequence = 0 },
		"in a log that begins with 0":             func(b *Batch) { b.First = 0 },
		"in a log that begins with 8":             func(b *Batch) { b.First = 8 },
		"is 18446744073709551615, in":             func(b *Batch) { b.Sequence = 1<<64 - 1 },
	} {
		b := sample()
		change(b)
		data, err := Marshal(b)
		require.NoError(t, err)
		_, err = Unmarshal(data)
		require.ErrorIs(t, err, ErrMalformed)
		require.ErrorContains(t, err, want)
	}

	for _, data := range []string{"", "x", "\xff\xff\xff", strings.Repeat("\x00", MaxBytes+1)} {
		_, err := Unmarshal([]byte(data))
		require.ErrorIs(t, err, ErrMalformed)
	}
	b := sample()
	for range 1000 {
		b.Events = append(b.Events, &Event{Kind: Event_EXEC, Delta: 8, Detail: strings.Repeat("x", 4000)})
	}
	_, err := Marshal(b)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "more than 1047552")
}

// Whatever is read can be written, and says the same again.
func FuzzUnmarshal(f *testing.F) {
	data, err := Marshal(sample())
	require.NoError(f, err)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Unmarshal(data)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := Marshal(b)
		require.NoError(t, err)
		back, err := Unmarshal(again)
		require.NoError(t, err)
		require.True(t, proto.Equal(b, back))
		require.Equal(t, ID(b), ID(back))
	})
}
