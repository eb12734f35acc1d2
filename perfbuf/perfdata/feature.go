package perfdata

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// feature is one of the sections at the end of a file.
type feature struct {
	bit  int
	body []byte
}

// features lists a recording's features by number, without those unknown on this system.
func (r *Recorder) features() []feature {
	host, _ := os.Hostname()
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	cpus := uint32(runtime.NumCPU())
	cmdline := native.AppendUint32(nil, uint32(len(os.Args)))
	for _, arg := range os.Args {
		cmdline = append(cmdline, str(arg)...)
	}
	times := r.written
	if r.opts.Until != 0 {
		times = span{r.opts.Since, r.opts.Until}
	}
	return slices.DeleteFunc([]feature{
		{featHostname, str(host)},
		{featOSRelease, str(strings.TrimSpace(string(release)))},
		{featVersion, str("ringfold")},
		{featArch, str(arch())},
		{featNrCPUs, native.AppendUint32(native.AppendUint32(nil, cpus), cpus)}, // both
		{featCmdline, cmdline},
		{featEventDesc, r.eventDesc()},
		{featSampleTime, times.feature()},
		{featClockID, native.AppendUint64(nil, 1)}, // resolution in ns
		{featBTF, r.btf()},
		{featCompressed, r.packer.feature(r.opts.BufferBytes)},
		{featClockData, r.opts.clockData()},
	}, func(f feature) bool { return f.body == nil })
}

func (s span) feature() []byte {
	if s.last == 0 {
		return nil
	}
	return native.AppendUint64(native.AppendUint64(nil, s.first), s.last)
}

// str is struct perf_header_string, with its text padded as perf does.
func str(s string) []byte {
	size := (len(s) + 1 + 63) &^ 63
	b := native.AppendUint32(make([]byte, 0, 4+size), uint32(size))
	return append(b, s+strings.Repeat("\x00", size-len(s))...)
}

// arch is uname's name of the machine, as far as it differs from Go's.
func arch() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return runtime.GOARCH
}

// eventDesc names the events.
func (r *Recorder) eventDesc() []byte {
	b := native.AppendUint32(nil, uint32(len(r.events)))
	b = native.AppendUint32(b, attrSize)
	for _, e := range r.events {
		b = append(b, e.attr...)
		b = native.AppendUint32(b, 1) // ids
		b = append(b, str(e.name)...)
		b = native.AppendUint64(b, e.id)
	}
	return b
}

// btf is that of each event, with the event's id, nil if there is none.
func (r *Recorder) btf() []byte {
	n := uint32(0)
	b := make([]byte, 4)
	for _, e := range r.events {
		if len(e.btf) > 0 {
			n++
			b = native.AppendUint32(native.AppendUint32(b, uint32(e.id)), uint32(len(e.btf)))
			b = append(b, e.btf...)
		}
	}
	if n == 0 {
		return nil
	}
	native.PutUint32(b, n)
	return b
}

// clockData is what two clocks show now, so that perf can print dates. nil: not known.
func (o Options) clockData() []byte {
	now, wall := perfbuf.Now(), uint64(time.Now().UnixNano())
	if o.WallClock {
		now = wall
	}
	if now == 0 {
		return nil
	}
	b := native.AppendUint32(nil, 1) // version
	b = native.AppendUint32(b, o.clock())
	return native.AppendUint64(native.AppendUint64(b, wall), now)
}
