package perfdata

// Events returns the events of a recording that can be replayed, with their names, and the BTF that
// [Options] gave for each. It has no Source. Of perf record's files there is no BTF, and of files
// that were not closed only such that takes less than 64 KiB.
//
// Events reads the file's header and features, and blocks for that; it returns the errors of [Open]
// that concern these. Where two events have one name, [ReplayOptions] cannot choose between them.
func Events(path string) ([]EventInfo, error) {
	r, err := parseFile(path)
	if err != nil {
		return nil, err
	}
	return r.events(), nil
}

func (r *recording) events() (list []EventInfo) {
	for _, l := range r.layouts {
		if l.mark() || l.lacks() != "" {
			continue
		}
		list = append(list, EventInfo{Name: l.name, BTF: r.btfOf(l)})
	}
	return list
}

// Times returns the interval for which a recording says that it has every event, in ns of its
// clock. For a snapshot of a flight recorder these are CompleteSince and Until, otherwise the times
// of the first and the last event. Both are 0 if the file does not say, as when it was not closed.
// It blocks and fails as [Events] does.
func Times(path string) (since, until uint64, err error) {
	r, err := parseFile(path)
	if err != nil {
		return 0, 0, err
	}
	return r.times.first, r.times.last, nil
}

func parseFile(path string) (*recording, error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(path, f, size)
}

// btfOf looks for an event's BTF in HEADER_BPF_BTF, which has other numbers in perf's own files. A
// faulty section leaves events without BTF.
func (r *recording) btfOf(l *layout) []byte {
	if !r.ours || len(r.btf) < 4 || !l.named {
		return nil
	}
	for b := r.btf[4:]; len(b) >= 8; {
		id, size := native.Uint32(b), uint64(native.Uint32(b[4:]))
		if b = b[8:]; size > uint64(len(b)) {
			return nil
		}
		if uint64(id) == l.id {
			return b[:size:size]
		}
		b = b[size:]
	}
	return nil
}
