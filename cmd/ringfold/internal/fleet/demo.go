package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/agent"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/connect"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
	"github.com/spf13/cobra"
)

const (
	outage   = 2 * time.Second  // how long the server is away
	patience = 30 * time.Second // with hosts, on this machine, which they share
)

// demo is what the flags say, and what runs.
type demo struct {
	hosts    int
	rate     float64
	duration time.Duration
	outage   bool
	noReal   bool
	output   cli.Output

	note   func(string)
	dir    string
	server *broker.Server
}

func demoCommand() *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Show a server, several hosts and a tail on this machine",
		Long: `Run a NATS server, agents on made-up hosts, and one on this host if that is permitted. Print what
they publish, in order.

At the end, compare that with what the agents have read, and fail if anything was out of order, or
lost without a gap that says so.`,
		Example: `  ringfold fleet demo
  ringfold fleet demo --outage --timeout 20s
  ringfold fleet demo --hosts 20 --rate 500 --no-real --json | tail -n 1`,
		Args: cli.Args(cobra.NoArgs),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&d.hosts, "hosts", 5, "make up `N` hosts")
	f.Float64Var(&d.rate, "rate", 20, "events per second on each of them")
	f.DurationVar(&d.duration, "timeout", 10*time.Second, "end after this `duration`")
	f.BoolVar(&d.outage, "outage", false, "stop the server in the middle, for 2 seconds")
	f.BoolVar(&d.noReal, "no-real", false, "leave this host out")
	d.output.Flags(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if d.hosts < 0 || d.hosts > 1000 || d.hosts == 0 && d.noReal || d.rate <= 0 || d.duration <= 0 {
			return cli.Usagef("--hosts must be from 1 to 1000, --rate and --timeout positive")
		}
		d.note = notes(cmd)
		return d.run(cmd.Context(), cmd.OutOrStdout())
	}
	return cmd
}

func (d *demo) run(ctx context.Context, out io.Writer) (err error) {
	if d.dir, err = os.MkdirTemp("", "ringfold-fleet-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	if d.server, err = broker.Start(filepath.Join(d.dir, "nats")); err != nil {
		return err
	}
	defer d.server.Close()

	nc, err := connect.Options{URL: d.server.URL(), Note: d.note}.Connect("fleet demo")
	if err != nil {
		return err
	}
	defer nc.Close()
	stream := streamConfig{name: "EVENTS", maxAge: time.Hour, maxBytes: 1 << 30, replicas: 1}
	if err := stream.ensure(context.WithoutCancel(ctx), nc, d.note); err != nil { // our own server answers, and Ctrl-C is no error

		return err
	}
	return d.show(ctx, nc, out)
}

// show runs agents and a tail.
func (d *demo) show(ctx context.Context, nc *nats.Conn, out io.Writer) error {
	agents := d.agents()
	read := tail.Options{Stream: "EVENTS", All: true, ToEnd: true, Note: d.note}
	read.Dead = patience
	for _, a := range agents {
		read.Hosts = append(read.Hosts, a.Host)
	}
	config := tailConfig{read: read, output: d.output}
	sink := &checker{printer: newPrinter(out, config), hosts: map[string]*checked{}}

	reading, give := context.WithCancel(context.Background()) // beyond ctx: until the hosts have ended
	defer give()
	var result tail.Result
	var failed error
	var tailed, running sync.WaitGroup
	tailed.Go(func() { result, failed = tail.Run(reading, nc, read, sink) })

	working, end := context.WithCancel(ctx)
	defer end()
	outcomes := make([]outcome, len(agents))
	for i, a := range agents {
		running.Go(func() {
			outcomes[i] = d.host(working, a)
			if outcomes[i].err != nil {
				end()
				give() // this one does not say that it has ended
			}
		})
	}
	err := d.last(working, nc, len(agents))
	end()
	running.Wait()
	for i := range outcomes {
		if o := &outcomes[i]; o.err == nil && o.stats.SpoolBytes > 0 {
			o.err = fmt.Errorf("%d bytes are left in its spool", o.stats.SpoolBytes)
			give()
		}
	}
	tailed.Wait()
	for i, o := range outcomes {
		if o.err != nil {
			err = errors.Join(err, fmt.Errorf("agent of %s: %w", agents[i].Host, o.err))
		}
	}
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return d.conclude(sink, result, agents, outcomes, out)
}

// agents are the hosts.
func (d *demo) agents() (all []agent.Options) {
	for i := range d.hosts {
		host := agent.Options{Host: fmt.Sprintf("web-%d", i+1), BootID: fmt.Sprintf("boot-%d", i+1),
			Source: source.NewSimulated(source.SimulatedOptions{Seed: uint64(i), Rate: d.rate}), Clock: wrongBy(time.Duration(i%5-2) * 100 * time.Microsecond)}
		all = append(all, host)
	}
	if !d.noReal {
		if err := permitted(); err != nil {
			d.note(fmt.Sprintf("without this host: %v", err))
		} else {
			host, _ := os.Hostname()
			if host == "" || strings.HasPrefix(host, "web-") { // those are made up
				host = "localhost"
			}
			all = append(all, agent.Options{Host: host, Source: new(source.Real), Clock: wrongBy(0)})
		}
	}
	return all
}

// permitted says why this host's events cannot be read.
func permitted() error {
	src := new(source.Real)
	defer src.Close()
	reader, err := src.Open()
	if err != nil {
		return err
	}
	return reader.Close()
}

// wrongBy is the clock of a host that is wrong, and knows by how much. All have it from this machine, so that it does not matter for their
// order how wrong that is itself.
func wrongBy(d time.Duration) func() clock.Reading {
	return func() clock.Reading {
		r := clock.Measure()
		return clock.Reading{Offset: r.Offset + int64(d), Error: uint64(d.Abs() + 50*time.Microsecond)}
	}
}

// outcome is how an agent has ended.
type outcome struct {
	stats agent.Stats
	err   error
}

func (d *demo) host(ctx context.Context, o agent.Options) (out outcome) {
	nc, err := connect.Options{URL: d.server.URL()}.Connect("fleet agent " + o.Host)
	if err != nil {
		return outcome{err: err}
	}
	defer nc.Close()
	o.Conn, o.SpoolPath, o.EndWait = nc, filepath.Join(d.dir, o.Host+".spool"), time.Minute
	o.AckWait = time.Second // what was under way when the server stopped is sent again soon
	o.Note = func(text string) { d.note(o.Host + ": " + text) }
	out.stats, out.err = agent.Run(ctx, o)
	return out
}

// last waits for the end, with an outage in the middle if that is wanted. The time begins when all hosts have published.
func (d *demo) last(ctx context.Context, nc *nats.Conn, hosts int) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for published := 0; published < hosts && wait(ctx, 20*time.Millisecond); {
		stream, err := js.Stream(ctx, "EVENTS")
		if err == nil {
			published = int(stream.CachedInfo().State.NumSubjects)
		}
	}
	if !d.outage {
		wait(ctx, d.duration)
		return nil
	}
	if wait(ctx, d.duration/2) {
		d.note(fmt.Sprintf("stopping the server, for %v", outage))
		d.server.Stop()
		wait(ctx, outage)
		if err := d.server.Restart(); err != nil {
			return err
		}
		d.note("the server runs again")
		wait(ctx, d.duration/2)
	}
	return nil
}

// wait returns false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// jsonAgents is the object before the summary.
type jsonAgents struct {
	Agents  map[string]jsonAgent `json:"agents"`
	InOrder bool                 `json:"in_order"`
}

type jsonAgent struct {
	Read uint64            `json:"read"`
	Lost map[string]uint64 `json:"lost"`
}

// conclude prints the summary, and checks that all is there.
func (d *demo) conclude(sink *checker, result tail.Result, agents []agent.Options, outcomes []outcome, out io.Writer) error {
	var errs []error
	about := jsonAgents{Agents: map[string]jsonAgent{}, InOrder: sink.disorder == nil}
	for i, o := range outcomes {
		a := jsonAgent{Read: o.stats.Events, Lost: map[string]uint64{}}
		for reason, n := range o.stats.Lost {
			a.Lost[reasonName(reason)] = n
		}
		about.Agents[agents[i].Host] = a
		errs = append(errs, sink.compare(agents[i].Host, o.stats))
	}
	if d.output.Format == cli.JSON {
		line, err := json.Marshal(about)
		if err != nil {
			return err
		}
		if _, err := sink.out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	if err := sink.end(result); err != nil {
		return err
	}
	errs = append(errs, sink.disorder)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if d.output.Format != cli.JSON {
		fmt.Fprintln(out, "checked: in order, and all that the agents have read was printed, or is in a gap")
	}
	return nil
}
