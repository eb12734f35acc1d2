// Package demo is the command "fleet demo": a server, several hosts and a tail on this machine.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/tail"
	"github.com/spf13/cobra"
)

const (
	outage   = 2 * time.Second  // how long the server is away
	patience = 30 * time.Second // with hosts, on this machine, which they share
	stream   = "EVENTS"
)

// demo is what the flags say, and what runs.
type demo struct {
	made     int // hosts that are made up
	rate     float64
	duration time.Duration
	outage   bool
	noReal   bool
	output   cli.Output

	cmd    *cobra.Command
	note   func(string)
	dir    string
	server *broker.Server
	hosts  []*host
}

// Command is "ringfold fleet".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show many hosts' events as one log, over NATS JetStream",
		Long: `Show many hosts' events as one log, over NATS JetStream.

Each host publishes what it records: "ringfold record -w nats://broker:4222/EVENTS". The commands that
read recordings read those of all hosts, in order of time, and say what is missing:
"ringfold tail nats://broker:4222/EVENTS". "fleet demo" shows it on one machine.`,
		Example: `  ringfold fleet demo --outage
  ringfold record name events --type event -w nats://broker:4222/EVENTS
  ringfold tail 'nats://broker:4222/EVENTS?since=10m&hosts=web-1,web-2'`,
		Args: cli.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(demoCommand())
	return cmd
}

func demoCommand() *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Show a server, several hosts and a tail on this machine",
		Long: `Run a NATS server, made-up hosts, and this host if that is permitted. Print the process events that
they publish, in order.

At the end, compare that with what the hosts have recorded, and fail if anything was out of order, or
lost without a record that says so.`,
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
		d.cmd, d.note = cmd, cli.Notes(cmd)
		return d.run(cmd.Context())
	}
	return cmd
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "ringfold-fleet-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	if d.server, err = broker.Start(filepath.Join(d.dir, "nats")); err != nil {
		return err
	}
	defer d.server.Close()
	d.makeHosts()

	working, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	var begun sync.WaitGroup
	for _, h := range d.hosts {
		begun.Add(1)
		running.Go(func() {
			if h.err = d.publish(working, h, sync.OnceFunc(begun.Done)); h.err != nil {
				end()
			}
		})
	}
	begun.Wait()
	var last error
	running.Go(func() {
		defer end()
		last = d.last(working)
	})
	check := &checker{hosts: map[string]*seen{}}
	a, err := d.address()
	if err != nil {
		return err
	}
	a.Read.All, a.Read.ToEnd, a.Read.Dead = true, true, patience
	for _, h := range d.hosts {
		a.Read.Hosts = append(a.Read.Hosts, h.name)
	}
	reading, give := context.WithCancel(context.Background()) // beyond ctx: until the hosts have ended
	defer give()
	go func() {
		running.Wait()
		for _, h := range d.hosts {
			if h.err != nil {
				give() // the stream does not say that this one has ended
			}
		}
	}()
	err = tail.Fleet(reading, d.cmd, a, d.output, check.event)
	end()
	running.Wait()
	for _, h := range d.hosts {
		if h.err != nil {
			err = errors.Join(err, fmt.Errorf("host %s: %w", h.name, h.err))
		}
	}
	if err = errors.Join(err, last); err != nil {
		return err
	}
	return d.conclude(check)
}

func (d *demo) address() (fleet.Address, error) { return fleet.Parse(d.server.URL()+"/"+stream, false) }

func (d *demo) makeHosts() {
	for i := range d.made {
		d.hosts = append(d.hosts, &host{name: fmt.Sprintf("web-%d", i+1), boot: fmt.Sprintf("boot-%d", i+1), clock: wrongBy(time.Duration(i%5-2) * 100 * time.Microsecond),
			events: lifecycle.NewSimulation(lifecycle.SimulationOptions{Seed: uint64(i), Rate: d.rate})})
	}
	if d.noReal {
		return
	}
	src, err := lifecycle.Load()
	if err != nil {
		d.note(fmt.Sprintf("without this host: %v", err))
		return
	}
	name, _ := os.Hostname()
	if name == "" || strings.HasPrefix(name, "web-") { // those are made up
		name = "localhost"
	}
	d.hosts = append(d.hosts, &host{name: name, clock: wrongBy(0), events: src})
}

// wrongBy is the clock of a host that is wrong, and knows by how much. All are relative to this
// machine's, so its own error does not matter for their order.
func wrongBy(d time.Duration) func() clock.Reading {
	return func() clock.Reading {
		r := clock.Measure()
		return clock.Reading{Offset: r.Offset + int64(d), Error: uint64(d.Abs() + 50*time.Microsecond)}
	}
}

// last waits for the end, with an outage in the middle if that is wanted.
func (d *demo) last(ctx context.Context) error {
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
