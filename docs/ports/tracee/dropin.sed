# What changes in Tracee's pkg/ebpf/tracee.go and pkg/ebpf/controlplane/controller.go.
s,^	\(bpf \)\?"github.com/aquasecurity/libbpfgo"$,&\n\n	"github.com/ringfold/ringfold/perfbuf/perfchan",
s/\*\(bpf\|libbpfgo\)\.PerfBuffer/*perfchan.PerfBuffer/
s/\(t\|ctrl\)\.bpfModule\.InitPerfBuf(\("\?\)/perfchan.InitPerfBuf(\1.bpfModule, \2/
s/\(InitPerfBuf(t.bpfModule,\) $/\1/
