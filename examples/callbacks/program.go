package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
)

//go:embed callbacks.bpf.o
var object []byte

// filter is config of callbacks.bpf.c: of whom, and of what, it tells.
type filter struct {
	PID   uint32
	Calls [len(kinds)]uint32
}

func newFilter(pid int) filter {
	f := filter{PID: uint32(pid)}
	for i := range kinds {
		f.Calls[i] = kinds[i].nr
	}
	return f
}

// quiet keeps libbpf's messages below warnings to itself.
var quiet = sync.OnceFunc(func() {
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{LogFilters: []func(int, string) bool{
		func(level int, _ string) (skip bool) { return level > libbpfgo.LibbpfWarnLevel },
	}})
})

// explain says what the user can do about a lack of privilege.
func explain(err error) error {
	var told *perfbuf.PermissionError // which says so itself
	if !errors.Is(err, fs.ErrPermission) || errors.As(err, &told) {
		return err
	}
	return fmt.Errorf("%w: uid %d may not load BPF programs or open perf events.\nRun it as root (sudo), or with CAP_BPF and CAP_PERFMON, outside of sandboxes that forbid bpf(2) or perf_event_open(2)",
		err, os.Geteuid())
}
