//go:build linux && cgo

// Soak drives BPF programs on all CPUs under load, reads their events in every way, and checks all
// of it. Every payload is intact, and order and losses are as promised. By the programs' own
// counts, every attempted output was delivered, lost or refused. Nothing grows. Its last line is a
// JSON object.
//
//	make soak DURATION=10m MODE=slack ARGS='-slack 100us -ring-bytes 8192'
//	make soak DURATION=3m MODE=sources       arrays and ring buffers that come and go
//	make soak DURATION=1h MODE=all
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/ringfold/ringfold/internal/kerneltest"
)

func main() {
	c := defaults()
	c.flags(flag.CommandLine)
	flag.Parse()
	c.fill(flag.CommandLine)
	err := c.check()
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	if unmet := kerneltest.Unmet(); len(unmet) > 0 {
		fail("it needs root, and the kernel's BTF: %s", strings.Join(unmet, "; "))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	res, err := soak(ctx, c)
	if err != nil {
		fail("%v", err)
	}
	line, err := json.Marshal(res)
	if err != nil {
		fail("%v", err)
	}
	for _, v := range res.Violations {
		fmt.Fprintln(os.Stderr, "soak: VIOLATION:", v)
	}
	fmt.Printf("%s\n", line)
	if len(res.Violations) > 0 {
		os.Exit(1)
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "soak: "+format+"\n", args...)
	os.Exit(1)
}
