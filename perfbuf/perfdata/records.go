package perfdata

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// kind says how a record of a file is replayed.
type kind uint8

const (
	other kind = iota // it is not
	sample
	lost
	corrupt
)

// entry is a record that is replayed.
type entry struct {
	kind    kind
	cpu     int // -1: of a source without CPUs
	time    uint64
	lost    uint64
	counted bool   // the loss, by programs
	lane    uint32 // of that, with raw.CountedShed
	after   uint64 // of such a loss
	payload []byte // of such a loss, its reason; valid until the next record is read
}

const (
	typeTracingData = 66
	typeAuxTrace    = 71

	mostTime = 1 << 62 // ns: clocks that begin at 0 never show more
	mostCPUs = 8192    // CONFIG_NR_CPUS is that at most
)

// record returns the record at an offset, and where the next begins. At the end it returns nil, and
// where the file is cut or damaged: r.cut then says why.
func (r *recording) record(off int64) (b []byte, next int64, err error) {
	if off >= r.end {
		return nil, off, nil
	}
	if b, err = r.blocks.at(off); err != nil {
		return nil, off, fmt.Errorf("perfdata: %s: at offset %d: %w", r.file, off, err)
	}
	b = b[:min(int64(len(b)), r.end-off)]
	if len(b) < 8 {
		r.cut = fmt.Sprintf("it was cut: at offset %d is half a record", off)
		return nil, off, nil
	}
	size := int(native.Uint16(b[6:]))
	switch {
	case size < 8 || size%8 != 0 && native.Uint32(b) != typeCompressed:
		r.cut = fmt.Sprintf("at offset %d is a record of %d bytes, which cannot be", off, size)
		return nil, off, nil
	case size > len(b):
		r.cut = fmt.Sprintf("it was cut: at offset %d are %d bytes of a record of %d", off, len(b), size)
		return nil, off, nil
	}
	next = off + int64(size)
	switch typ := native.Uint32(b); typ {
	case typeAuxTrace:
		return nil, off, r.bad(off, "there is AUX area trace data: record without it")
	case typeTracingData: // as much data follows as its body says
		if size >= 12 {
			next += (int64(native.Uint32(b[8:])) + 7) &^ 7
		}
	}
	return b[:size], next, nil
}

// entry reads a record. ok is false if it is too short for its fields.
func (r *recording) entry(b []byte) (e entry, ok bool) {
	switch native.Uint32(b) {
	case typeSample:
		return r.sample(b)
	case typeLost:
		return r.loss(b, 16)
	case typeLostSamples:
		if r.ours { // perf's own count again what PERF_RECORD_LOST has counted
			return r.loss(b, 8)
		}
	}
	return e, true
}

func (r *recording) sample(b []byte) (e entry, ok bool) {
	l := r.want
	if len(r.layouts) > 1 && l.sample.id >= 0 {
		if l.sample.id+8 > len(b) {
			return e, false
		}
		l = r.byID[native.Uint64(b[l.sample.id:])]
	}
	switch {
	case l == r.want:
		e.kind = sample
	case l != nil && l.mark():
		e.kind = corrupt
	default:
		return e, true
	}
	if l.sample.size > len(b) {
		return e, false
	}
	e.time, e.cpu = r.when(b, l.sample)
	e.payload, ok = l.payload(b)
	return e, ok
}

// loss reads a record whose own fields end with a count, at an offset. It skips a loss without a
// time or a CPU.
func (r *recording) loss(b []byte, at int) (e entry, ok bool) {
	f, own := r.want.behind, at+8
	switch {
	case len(b) < own:
		return e, false
	case f.time < 0 || f.cpu < 0:
		return e, true
	case len(b) < own+f.size:
		return e, false
	}
	id := b[len(b)-f.size:]
	if f.id >= 0 && len(r.layouts) > 1 && r.byID[native.Uint64(id[f.id:])] != r.want {
		return e, true
	}
	e.kind, e.lost = lost, native.Uint64(b[at:])
	e.time, e.cpu = r.when(id, f)
	if e.counted = r.ours && own == countedAt && len(b) >= own+16+f.size; e.counted {
		e.lane, e.payload = native.Uint32(b[own+8:]), bytes.TrimRight(b[own+16:len(b)-f.size], "\x00")
		if e.after = native.Uint64(b[own:]); e.after != 0 {
			e.after += r.shift
		}
	}
	return e, true
}

func (r *recording) when(b []byte, f fields) (time uint64, cpu int) {
	return native.Uint64(b[f.time:]) + r.shift, int(int32(native.Uint32(b[f.cpu:])))
}

// walk calls f for the records that are replayed, in the file's order, up to where the file is cut
// or damaged. It returns errCompressed at the first compressed record.
func (r *recording) walk(f func(off int64, e *entry) error) error {
	var e entry // one, as it escapes
	for off := r.data; ; {
		b, next, err := r.record(off)
		if b == nil || err != nil {
			return err
		}
		if typ := native.Uint32(b); typ == typeCompressed || typ == typeCompressed2 {
			return errCompressed
		}
		var ok bool
		if e, ok = r.entry(b); !ok || e.time > mostTime {
			r.end, r.cut = off, fmt.Sprintf("at offset %d is a record of type %d whose fields cannot be", off, native.Uint32(b))
			return nil
		}
		if e.kind != other {
			if err := f(off, &e); err != nil {
				return err
			}
		}
		off = next
	}
}

// place is a record's in time and in the file.
type place struct {
	time uint64
	off  int64
}

// plan reads the whole file: which CPUs it has, with how many bytes, and whether records are in
// order of time. If not, places has all of them in that order.
func (r *recording) plan() (cpus map[int]uint64, places []place, err error) {
	cpus = map[int]uint64{}
	counted := map[int]uint64{} // of losses that programs have counted
	latest, sorted := uint64(0), true
	err = r.walk(func(off int64, e *entry) error {
		of := cpus
		if e.counted {
			of = counted
		}
		if _, ok := of[e.cpu]; !ok && len(of) == mostCPUs {
			return r.bad(off, "CPU %d, and so more than %d of them", e.cpu, mostCPUs)
		}
		of[e.cpu] += e.size()
		sorted = sorted && e.time >= latest
		latest = max(latest, e.time)
		return nil
	})
	r.last = latest
	if len(cpus) == 0 && len(counted) > 0 {
		cpus[-1] = 0
	}
	if len(cpus) > 0 {
		r.home = slices.Min(slices.Collect(maps.Keys(cpus)))
	}
	for cpu, bytes := range counted {
		if _, ok := cpus[cpu]; !ok {
			cpu = r.home
		}
		cpus[cpu] += bytes
	}
	if err != nil || sorted {
		return cpus, nil, err
	}
	err = r.walk(func(off int64, e *entry) error {
		places = append(places, place{e.time, off})
		return nil
	})
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.off, b.off)) })
	return cpus, places, err
}
