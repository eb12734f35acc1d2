package ringtest

import (
	"encoding/binary"
	"syscall"

	"github.com/ringfold/ringfold/internal/raw"
)

// Handle is an output on its way into a ring, like perf_output_handle. Its steps are Look, Take,
// Report, Copy and Publish, in this order. Between any two of them other outputs may run whole, as
// in an interrupt.
type Handle struct {
	ring    *Ring
	payload []byte
	time    uint64 // the one given, or that of Report
	full    uint64 // bytes of the record; the header's size field cannot hold more than 65535
	off     uint64 // where the reservation begins
	report  bool   // there are losses to report
	wakeup  uint64
	bell    bool // the output is to the ring's second perf event, with wakeup_events of 1
}

// Prepare begins an output whose time was taken: perf_prepare_sample. The time is ignored if the
// ring's layout has none. The payload is used until Copy.
func (r *Ring) Prepare(time uint64, payload []byte) Handle {
	return Handle{ring: r, payload: payload, time: time, full: uint64(r.fixed()+4+len(payload)+7) &^ 7}
}

// fixed is the offset of a sample's raw_size.
func (r *Ring) fixed() int {
	if r.layout == raw.LayoutRawTime {
		return 16
	}
	return 8
}

// Output does all steps of an output, as bpf_perf_event_output does undisturbed. It returns
// syscall.ENOSPC, and counts a loss, if the ring is too full.
func (r *Ring) Output(time uint64, payload []byte) error {
	h := r.Prepare(time, payload)
	h.Look()
	if _, err := h.Take(); err != nil {
		return err
	}
	h.Report(time)
	h.Copy()
	h.Publish()
	return nil
}

// Look is the beginning of __perf_output_begin: are there losses to report? From here on, outputs
// that interrupt leave publishing to this one (perf_output_get_handle).
func (h *Handle) Look() {
	r := h.ring
	h.report = r.lost > 0
	r.nest++
	h.wakeup = r.wakeup
}

// Take reserves room for the sample and any report of losses. If it fails with syscall.ENOSPC the
// output is over, and wake is that of Publish.
func (h *Handle) Take() (wake bool, err error) {
	r := h.ring
	// header.size has 16 bits, and the kernel reserves that many bytes. For an output too large for
	// them, that is less than it copies.
	size := h.full & 0xFFFF
	if h.report {
		size += r.lostSize()
	}
	if r.space() < size {
		r.lost++
		r.total.Add(1)
		return h.Publish(), syscall.ENOSPC
	}
	h.off = r.head
	r.head += size
	if r.head-r.wakeup > r.watermark {
		r.wakeup += r.watermark
	}
	return false, nil
}

// space is ring_buffer_has_space's CIRC_SPACE: at least one byte stays free.
func (r *Ring) space() uint64 { return (r.Tail() - (r.head + 1)) & uint64(len(r.data)-1) }

// lostSize is the size of a LOST record: header, id, lost, and with sample_id_all the time.
func (r *Ring) lostSize() uint64 { return uint64(16 + r.fixed()) }

// Report is the end of __perf_output_begin. If Look saw losses it writes a LOST record, even of 0
// if an interrupt has reported them since, and the kernel takes the time anew, now, for both
// records.
func (h *Handle) Report(now uint64) {
	if !h.report {
		return
	}
	r := h.ring
	h.time = now
	var rec [32]byte
	size := r.lostSize()
	binary.NativeEndian.PutUint32(rec[:], TypeLost)
	binary.NativeEndian.PutUint16(rec[6:], uint16(size))
	binary.NativeEndian.PutUint64(rec[16:], r.lost)
	binary.NativeEndian.PutUint64(rec[24:], now)
	h.off = r.copyTo(h.off, rec[:size])
	r.lost = 0
}

// Copy writes the sample: perf_output_sample. The padding behind the payload is left as it is.
func (h *Handle) Copy() {
	r := h.ring
	var head [20]byte
	fixed := r.fixed()
	binary.NativeEndian.PutUint32(head[:], TypeSample)
	binary.NativeEndian.PutUint16(head[6:], uint16(h.full))
	binary.NativeEndian.PutUint64(head[8:], h.time)
	binary.NativeEndian.PutUint32(head[fixed:], uint32(h.full)-uint32(fixed+4))
	r.copyTo(r.copyTo(h.off, head[:fixed+4]), h.payload)

	if h.bell {
		r.wakeup++
	} else if r.wakeupEvents > 0 {
		if r.events++; r.events >= r.wakeupEvents {
			r.events -= r.wakeupEvents
			r.wakeup++
		}
	}
}

// Publish ends the output: perf_output_put_handle. Only the outermost writer stores data_head, also
// for the outputs within it. wake reports whether it wakes readers.
func (h *Handle) Publish() (wake bool) {
	r := h.ring
	r.nest--
	if r.nest > 0 || r.Defer {
		return false
	}
	r.Publish()
	return h.wakeup != r.wakeup
}

// SetWakeup sets when outputs wake readers: after this many events (perf_event_attr.wakeup_events)
// or half a ring; if bytes is not 0, after this many bytes instead (wakeup_watermark).
func (r *Ring) SetWakeup(events, bytes int) {
	r.wakeupEvents = events
	r.watermark = uint64(len(r.data)) / 2
	if bytes > 0 {
		r.wakeupEvents = 0
		r.watermark = uint64(min(bytes, len(r.data)))
	}
}
