package fleet

import (
	"context"
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
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/spf13/cobra"
)

const (
	outage   = 2 * time.Second  // how long the server is away
	patience = 30 * time.Second // with hosts, on this machine, which they share
)

// demo is what the flags say, and what runs.
type demo struct {
	made     int // hosts that are made up
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
	f.IntVar(&d.made, "hosts", 5, "make up `N` hosts")
	f.Float64Var(&d.rate, "rate", 20, "events per second on each of them")
	f.DurationVar(&d.duration, "timeout", 10*time.Second, "end after this `duration`")
	f.BoolVar(&d.outage, "outage", false, "stop the server in the middle, for 2 seconds")
	f.BoolVar(&d.noReal, "no-real", false, "leave this host out")
	d.output.Flags(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if d.made < 0 || d.made > 1000 || d.made == 0 && d.noReal || d.rate <= 0 || d.duration <= 0 {
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

// host is an agent of the demo, and how it has ended.
type host struct {
	agent.Options
	stats agent.Stats
	err   error
}

// show runs agents and a tail.
func (d *demo) show(ctx context.Context, nc *nats.Conn, out io.Writer) error {
	hosts := d.hosts()
	read := tail.Options{MergeOptions: tail.MergeOptions{Dead: patience}, Stream: "EVENTS", All: true, ToEnd: true, Note: d.note}
	for _, h := range hosts {
		read.Hosts = append(read.Hosts, h.Host)
	}
	sink := &checker{printer: newPrinter(out, tailConfig{read: read, output: d.output}), hosts: map[string]*checked{}}

	reading, give := context.WithCancel(context.Background()) // beyond ctx: until the hosts have ended
	defer give()
	var result tail.Result
	var failed error
	var tailed, running sync.WaitGroup
	tailed.Go(func() { result, failed = tail.Run(reading, nc, read, sink) })
	working, end := context.WithCancel(ctx)
	defer end()
	for _, h := range hosts {
		running.Go(func() {
			if h.stats, h.err = d.ship(working, h.Options); h.err == nil && h.stats.SpoolBytes > 0 {
				h.err = fmt.Errorf("%d bytes are left in its spool", h.stats.SpoolBytes)
			}
			if h.err != nil {
				end()
				give() // the stream does not say that this one has ended
			}
		})
	}
	err := d.last(working, nc, len(hosts))
	end()
	running.Wait()
	tailed.Wait()
	for _, h := range hosts {
		if h.err != nil {
			err = errors.Join(err, fmt.Errorf("agent of %s: %w", h.Host, h.err))
		}
	}
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return d.conclude(sink, result, hosts, out)
}

func (d *demo) hosts() (all []*host) {
	for i := range d.made {
		all = append(all, &host{Options: agent.Options{
			Host: fmt.Sprintf("web-%d", i+1), BootID: fmt.Sprintf("boot-%d", i+1), Clock: wrongBy(time.Duration(i%5-2) * 100 * time.Microsecond),
			Source: lifecycle.NewSimulation(lifecycle.SimulationOptions{Seed: uint64(i), Rate: d.rate}),
		}})
	}
	if d.noReal {
		return all
	}
	src, err := thisHost()
	if err != nil {
		d.note(fmt.Sprintf("without this host: %v", err))
		return all
	}
	name, _ := os.Hostname()
	if name == "" || strings.HasPrefix(name, "web-") { // those are made up
		name = "localhost"
	}
	return append(all, &host{Options: agent.Options{Host: name, Source: src, Clock: wrongBy(0)}})
}

// wrongBy is the clock of a host that is wrong, and knows by how much. All are relative to this
// machine's, so its own error does not matter for their order.
func wrongBy(d time.Duration) func() clock.Reading {
	return func() clock.Reading {
		r := clock.Measure()
		return clock.Reading{Offset: r.Offset + int64(d), Error: uint64(d.Abs() + 50*time.Microsecond)}
	}
}

func (d *demo) ship(ctx context.Context, o agent.Options) (agent.Stats, error) {
	nc, err := connect.Options{URL: d.server.URL()}.Connect("fleet agent " + o.Host)
	if err != nil {
		return agent.Stats{}, err
	}
	defer nc.Close()
	o.Conn, o.SpoolPath, o.EndWait = nc, filepath.Join(d.dir, o.Host+".spool"), time.Minute
	o.AckWait = time.Second // what was under way when the server stopped is sent again soon
	o.Note = func(text string) { d.note(o.Host + ": " + text) }
	return agent.Run(ctx, o)
}

// last waits for the end, with an outage in the middle if that is wanted. The time begins when all
// hosts have published.
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
	case <-time.After(d):
	}
	return ctx.Err() == nil
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
func (d *demo) conclude(sink *checker, result tail.Result, hosts []*host, out io.Writer) error {
	err := sink.disorder
	about := jsonAgents{Agents: map[string]jsonAgent{}, InOrder: err == nil}
	for _, h := range hosts {
		a := jsonAgent{Read: h.stats.Events, Lost: map[string]uint64{}}
		for reason, n := range h.stats.Lost {
			a.Lost[reasonName(reason)] = n
		}
		about.Agents[h.Host] = a
		err = errors.Join(err, sink.compare(h.Host, h.stats))
	}
	if d.output.Format == cli.JSON {
		if _, err := sink.out.Write(appendJSON(nil, about)); err != nil {
			return err
		}
	}
	if err := errors.Join(sink.end(result), err); err != nil {
		return err
	}
	if d.output.Format != cli.JSON {
		fmt.Fprintln(out, "checked: in order, and all that the agents have read was printed, or is in a gap")
	}
	return nil
}
