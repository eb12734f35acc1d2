# What changes in main.go of libbpfgo's selftests.
s,^	bpf "github.com/aquasecurity/libbpfgo"$,&\n	"github.com/ringfold/ringfold/perfbuf/perfchan",
s/\(\w*\)\.\(InitPerfBuf\|InitRingBuf\|AddRingBuf\)(/perfchan.\2(\1, /
