package perfbuf

import "log/slog"

// Record is a copy of an [Event] that you may keep. Each field holds the result of the Event's
// method of that name, and Data that of [Event.Bytes]. Fields that do not apply to the Kind are
// zero.
type Record struct {
	Kind      Kind
	CPU       int
	Source    string
	Time      uint64 // ns of CLOCK_MONOTONIC
	Data      []byte // of KindSample: the payload, and 0 to 7 bytes of padding
	Late      bool   // only in ordered streams
	Lost      uint64 // of KindLost: how many outputs failed
	LostAfter uint64 // of KindLost: earliest time, in ns of CLOCK_MONOTONIC
	Err       error  // of KindCorrupt: a *CorruptError
}

// Record returns a copy that you may keep. It allocates.
func (e Event) Record() Record {
	rec := Record{Kind: e.Kind(), CPU: e.CPU(), Source: e.Source(), Time: e.Time(), Late: e.Late(), Lost: e.Lost(), LostAfter: e.LostAfter(), Err: e.Err()}
	if rec.Kind == KindSample {
		rec.Data = append(make([]byte, 0, e.ev.Len()), e.Bytes()...)
	}
	return rec
}

// LogValue implements [slog.LogValuer]. It returns a group: kind, cpu, time in ns; len for samples,
// lost and after for losses, err for corrupt memory; and late if true. The payload's bytes stay out
// of the log.
func (r Record) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", r.Kind.String()), slog.Int("cpu", r.CPU), slog.Uint64("time", r.Time)}
	switch r.Kind {
	case KindSample:
		attrs = append(attrs, slog.Int("len", len(r.Data)))
	case KindLost:
		attrs = append(attrs, slog.Uint64("lost", r.Lost), slog.Uint64("after", r.LostAfter))
	case KindCorrupt:
		attrs = append(attrs, slog.Any("err", r.Err))
	}
	if r.Late {
		attrs = append(attrs, slog.Bool("late", true))
	}
	return slog.GroupValue(attrs...)
}
