package perfbuf

import "log/slog"

// Record is an owned copy of an [Event]: keep it, send it, store it. Each field is what the Event's method
// of that name returns. Fields that do not belong to the Kind are zero.
type Record struct {
	Kind  Kind
	CPU   int
	Time  uint64 // ns of CLOCK_MONOTONIC
	Data  []byte // KindSample: the payload, and 0 to 7 bytes of padding
	Late  bool   // only in ordered streams
	Lost  uint64 // KindLost: how many outputs
	After uint64 // KindLost: lower bound of when, in ns of CLOCK_MONOTONIC
	Err   error  // KindCorrupt: a *CorruptError
}

// Record returns a copy that the caller may keep. It allocates.
func (e Event) Record() Record {
	rec := Record{Kind: e.Kind(), CPU: e.CPU(), Time: e.Time(), Late: e.Late(), Lost: e.Lost(), After: e.After(), Err: e.Err()}
	if rec.Kind == KindSample {
		rec.Data = append(make([]byte, 0, e.Len()), e.Bytes()...)
	}
	return rec
}

// LogValue makes Record a [slog.LogValuer]. It returns a group of kind, cpu and time (in ns), then len for a
// sample, lost and after for a loss, err for corrupt memory, and late where true. The payload itself stays out
// of the log.
func (r Record) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", r.Kind.String()), slog.Int("cpu", r.CPU), slog.Uint64("time", r.Time)}
	switch r.Kind {
	case KindSample:
		attrs = append(attrs, slog.Int("len", len(r.Data)))
	case KindLost:
		attrs = append(attrs, slog.Uint64("lost", r.Lost), slog.Uint64("after", r.After))
	case KindCorrupt:
		attrs = append(attrs, slog.Any("err", r.Err))
	}
	if r.Late {
		attrs = append(attrs, slog.Bool("late", true))
	}
	return slog.GroupValue(attrs...)
}
