//go:build linux && cgo

package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

type config struct {
	mode      string
	duration  time.Duration
	slack     time.Duration
	interval  time.Duration
	barriers  barriers
	ringBytes int
	spill     int
	wake      perfbuf.Wakeup
	time      string
	dropLate  bool

	pauses, flushes, changes, reopen, vary, hotplug bool

	life time.Duration // the most between two reopenings

	seed   uint64
	memory int // bytes; 0 is no limit, and below 0 its growth is not judged

	load  loadConfig
	spawn int // child processes a second
	quiet bool
}

func defaults() config {
	cpus := runtime.NumCPU()
	return config{
		mode: "exact", duration: 10 * time.Second, slack: time.Millisecond,
		ringBytes: 64 << 10, time: "kernel", life: 1500 * time.Millisecond, seed: uint64(time.Now().UnixNano()) >> 10 & 0xffffffff,
		load: loadConfig{Workers: cpus, Hogs: (cpus + 1) / 2, Rate: 5000, Bursts: true},
	}
}

func (c *config) flags(f *flag.FlagSet) {
	f.StringVar(&c.mode, "mode", c.mode, "how to read: `"+strings.Join(modeNames, ", ")+"`, or all, one after the other; sources is an exact\nstream of two perf event arrays, a shared ring buffer and one per CPU")
	f.DurationVar(&c.duration, "duration", c.duration, "how long programs run; 0 is until Ctrl-C")
	f.BoolVar(&c.pauses, "pauses", c.pauses, "call Pause and Resume at random; on in -mode sources and all")
	f.BoolVar(&c.flushes, "flushes", c.flushes, "call Flush at random, and check what comes before its marker; on in -mode sources and all")
	f.BoolVar(&c.changes, "changes", c.changes, "in -mode sources, take sources other than the first out of the stream every few ms, close and reopen\nhalf of them, and put them back: what they bring late must be marked. On in -mode sources and all")
	f.BoolVar(&c.reopen, "reopen", c.reopen, "close the reader at random, and open another on the same map; on in -mode all")
	f.DurationVar(&c.life, "life", c.life, "with -reopen: the longest that a reader is open")
	f.BoolVar(&c.vary, "vary", c.vary, "open readers and streams with options at random; on in -mode all")
	f.BoolVar(&c.hotplug, "hotplug", c.hotplug, "take CPUs other than 0 offline and back at random: not on a machine that others use")
	f.Uint64Var(&c.seed, "seed", c.seed, "of what is done at random; what the kernel does is not reproduced")
	f.Func("memory", "limit of Go's memory in `MiB` (GOMEMLIMIT): 64MiB, for instance", func(text string) error {
		n, err := strconv.ParseUint(strings.TrimSuffix(text, "MiB"), 10, 32)
		c.memory = int(n) << 20
		return err
	})
	f.DurationVar(&c.slack, "slack", c.slack, "slack of -mode slack")
	f.DurationVar(&c.interval, "interval", c.interval, "least time between barriers of -mode exact; 0 is the library's default, below 0 none")
	f.Var(&c.barriers, "barriers", "ways in which barriers of -mode exact may wait, such as `bind-mount|map-in-map`; empty is all, and takes the best")
	f.IntVar(&c.ringBytes, "ring-bytes", c.ringBytes, "size of each CPU's ring; 8192 is sure to lose events")
	f.IntVar(&c.spill, "spill-bytes", c.spill, "most memory for what full rings hold; 0 is the library's default, -1 none")
	f.IntVar(&c.wake.Bytes, "wake-bytes", c.wake.Bytes, "wake the reader after so many bytes on a CPU; 0 is the library's default")
	f.DurationVar(&c.wake.PollInterval, "poll-interval", c.wake.PollInterval, "the longest that events wait unseen; 0 is the library's default")
	f.StringVar(&c.time, "time", c.time, "`kernel` or payload: which time to order by")
	f.BoolVar(&c.dropLate, "drop-late", c.dropLate, "let the stream drop late events")
	f.IntVar(&c.load.Workers, "load", c.load.Workers, "workers that make system calls, sleep, and wake each other; dealt out to the CPUs")
	f.IntVar(&c.load.Hogs, "hogs", c.load.Hogs,
		"threads that take all the CPU time they get; if each CPU has one, kernel threads\n"+
			"may starve for seconds, and grace periods with them")
	f.IntVar(&c.load.Rate, "rate", c.load.Rate, "system calls a second of each worker; 0 is as many as it can")
	f.BoolVar(&c.load.Bursts, "bursts", c.load.Bursts, "output bursts on all CPUs, for 20 ms of each second without a pause")
	f.IntVar(&c.spawn, "spawn", c.spawn,
		fmt.Sprintf("child processes a second that the reader's process makes, by fork and by fork and exec, 0 for none;\n"+
			"without this flag %d in -mode exact and all, none with -bursts=false, which makes a steady load", spawnRate))
	f.BoolVar(&c.quiet, "quiet", c.quiet, "no progress on stderr")
}

// spawnRate is the default number of children a second: few enough not to disturb the measurement.
const spawnRate = 40

// fill sets the mode's defaults where the user set nothing.
func (c *config) fill(f *flag.FlagSet) {
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, on := range map[string]*bool{"pauses": &c.pauses, "flushes": &c.flushes, "changes": &c.changes, "reopen": &c.reopen, "vary": &c.vary} {
		if (c.mode == "all" || c.mode == "sources" && name != "reopen" && name != "vary") && !given[name] {
			*on = true
		}
	}
	if (c.mode == "exact" || c.mode == "sources" || c.mode == "all") && c.load.Bursts && !given["spawn"] {
		c.spawn = spawnRate
	}
	c.load.Hotplug = c.hotplug
}

func (c *config) check() error {
	switch {
	case c.mode != "all" && !slices.Contains(modeNames, c.mode):
		return fmt.Errorf("-mode %s: %s or all", c.mode, strings.Join(modeNames, ", "))
	case c.time != "kernel" && c.time != "payload":
		return fmt.Errorf("-time %s: kernel or payload", c.time)
	case c.life <= 0:
		return fmt.Errorf("-life %v: must be positive", c.life)
	case c.load.Workers < 0 || c.load.Hogs < 0 || c.load.Rate < 0 || c.spawn < 0:
		return fmt.Errorf("-load, -hogs, -rate and -spawn must not be negative")
	}
	return nil
}

func (c *config) options() (perfbuf.Options, perfbuf.StreamOptions) {
	o := perfbuf.StreamOptions{
		DropLate: c.dropLate, Spill: perfbuf.Spill{Bytes: c.spill}, BarrierInterval: c.interval, Barriers: perfbuf.Barriers(c.barriers),
	}
	if c.mode == "slack" {
		o.Order = perfbuf.Slack(c.slack)
	}
	r := perfbuf.Options{RingBytes: c.ringBytes, Wakeup: c.wake}
	if c.time == "payload" {
		r.Time = perfbuf.PayloadTime(workload.TimeOffset)
	}
	return r, o
}

// varyOptions chooses options for one reader and its stream.
func (c *config) varyOptions(rnd *rand.Rand) {
	c.ringBytes = pick(rnd, 8<<10, 64<<10, 256<<10)
	c.spill = pick(rnd, 0, 0, 64<<10, -1)
	c.wake = pick(rnd, perfbuf.Wakeup{}, perfbuf.Wakeup{}, perfbuf.Wakeup{Events: 1}, perfbuf.Wakeup{Events: 100},
		perfbuf.Wakeup{Bytes: c.ringBytes / 4, PollInterval: time.Millisecond})
	c.time = pick(rnd, "kernel", "kernel", "payload")
	c.interval = pick(rnd, -1, 0, time.Millisecond, 5*time.Millisecond)
	c.slack = pick(rnd, 0, 100*time.Microsecond, time.Millisecond, 10*time.Millisecond)
	c.dropLate = rnd.IntN(4) == 0
}

func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

// barriers are named as the library does.
type barriers perfbuf.Barriers

func (b *barriers) String() string { return perfbuf.Barriers(*b).String() }

func (b *barriers) Set(text string) error {
	*b = 0
next:
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == ',' }) {
		for one := perfbuf.Barriers(1); one.String() != ""; one <<= 1 {
			if one.String() == name {
				*b |= barriers(one)
				continue next
			}
		}
		return fmt.Errorf("there is no %q: there are %v", name, ^perfbuf.Barriers(0))
	}
	return nil
}
