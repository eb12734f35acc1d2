# After dropin.sed: what else changes in pkg/ebpf/tracee.go to order by the times that Tracee's programs take.
s,^	"github.com/ringfold/ringfold/perfbuf/perfchan"$,	"github.com/ringfold/ringfold/perfbuf"\n&,
/t\.eventsPerfMap, err = perfchan\.InitPerfBuf/,/^	)$/c\
	t.eventsPerfMap, err = t.openEvents()
$a\
\
// openEvents opens the map of events. Their time is the first field of event_context.\
func (t *Tracee) openEvents() (*perfchan.PerfBuffer, error) {\
	m, err := t.bpfModule.GetMap("events")\
	if err != nil {\
		return nil, err\
	}\
	r, err := perfbuf.Open(m.FileDescriptor(), perfbuf.Options{\
		RingBytes: t.config.Buffers.Kernel.Events * os.Getpagesize(), Time: perfbuf.PayloadBootTime(0),\
		Wakeup: perfbuf.Wakeup{PollInterval: time.Millisecond},\
	})\
	if err != nil {\
		return nil, err\
	}\
	return perfchan.New(r, perfbuf.StreamOptions{}, t.eventsChannel, t.lostEvChannel)\
}
