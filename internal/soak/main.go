//go:build linux && cgo

// Soak drives BPF programs on all CPUs under load, reads their events as one ordered stream, and
// checks all of it: that every payload is intact, that order and losses are what the stream says they
// are, and that the counts of the programs themselves agree. Its last line is a JSON object.
//
//	make soak DURATION=10m MODE=slack ARGS='-slack 100us -ring-bytes 8192'
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
)

type config struct {
	mode      string
	duration  time.Duration
	slack     time.Duration
	interval  time.Duration
	ringBytes int
	spill     int
	wakeBytes int
	linger    time.Duration
	time      string
	dropLate  bool

	load  loadConfig
	quiet bool
}

func defaults() config {
	cpus := runtime.NumCPU()
	return config{
		mode: "exact", duration: 10 * time.Second, slack: time.Millisecond, interval: time.Millisecond,
		ringBytes: 64 << 10, time: "kernel",
		load: loadConfig{Workers: cpus, Hogs: (cpus + 1) / 2, Rate: 5000, Bursts: true},
	}
}

func (c *config) flags(f *flag.FlagSet) {
	f.StringVar(&c.mode, "mode", c.mode, "`exact` or slack")
	f.DurationVar(&c.duration, "duration", c.duration, "how long programs run; 0 is until Ctrl-C")
	f.DurationVar(&c.slack, "slack", c.slack, "slack of -mode slack")
	f.DurationVar(&c.interval, "interval", c.interval,
		"least time between barriers of -mode exact; 0 is none")
	f.IntVar(&c.ringBytes, "ring-bytes", c.ringBytes,
		"size of each CPU's ring; 8192 is sure to lose events")
	f.IntVar(&c.spill, "spill-bytes", c.spill,
		"most memory for what full rings hold; 0 is the library's default, -1 none")
	f.IntVar(&c.wakeBytes, "wake-bytes", c.wakeBytes,
		"wake the reader after so many bytes on a CPU; 0 is on each event")
	f.DurationVar(&c.linger, "linger", c.linger,
		"with -wake-bytes: the longest that events wait unseen; 0 is the library's default")
	f.StringVar(&c.time, "time", c.time, "`kernel` or payload: which time to order by")
	f.BoolVar(&c.dropLate, "drop-late", c.dropLate, "let the stream drop late events")
	f.IntVar(&c.load.Workers, "load", c.load.Workers,
		"workers that make system calls, sleep, and wake each other; dealt out to the CPUs")
	f.IntVar(&c.load.Hogs, "hogs", c.load.Hogs,
		"threads that take all the CPU time they get; if each CPU has one, kernel threads\n"+
			"may starve for seconds, and grace periods with them")
	f.IntVar(&c.load.Rate, "rate", c.load.Rate,
		"system calls a second of each worker; 0 is as many as it can")
	f.BoolVar(&c.load.Bursts, "bursts", c.load.Bursts,
		"output bursts on all CPUs, for 20 ms of each second without a pause")
	f.BoolVar(&c.quiet, "quiet", c.quiet, "no progress on stderr")
}

func (c *config) check() error {
	switch {
	case c.mode != "exact" && c.mode != "slack":
		return fmt.Errorf("-mode %s: exact or slack", c.mode)
	case c.time != "kernel" && c.time != "payload":
		return fmt.Errorf("-time %s: kernel or payload", c.time)
	case c.load.Workers < 0 || c.load.Hogs < 0 || c.load.Rate < 0:
		return fmt.Errorf("-load, -hogs and -rate must not be negative")
	}
	return nil
}

func (c *config) options() (perfbuf.Options, perfbuf.OrderOptions) {
	o := perfbuf.OrderOptions{
		DropLate: c.dropLate, Spill: perfbuf.Spill{Bytes: c.spill}, BarrierInterval: c.interval,
	}
	if c.interval == 0 {
		o.BarrierInterval = -1
	}
	if c.mode == "slack" {
		o.Mode = perfbuf.Slack(c.slack)
	}
	if c.time == "payload" {
		o.Time = perfbuf.PayloadTime(payloadTimeOffset)
	}
	wakeup := perfbuf.Wakeup{Bytes: c.wakeBytes, Linger: c.linger}
	return perfbuf.Options{RingBytes: c.ringBytes, Wakeup: wakeup}, o
}

func main() {
	if isWorker() {
		work()
		return
	}
	c := defaults()
	c.flags(flag.CommandLine)
	flag.Parse()
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
