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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
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

	last     uint64 // the time of the latest event that was printed
	disorder bool
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
	if err := makeStream(ctx, d.server.URL()); err != nil {
		return err
	}
	a, err := fleet.Parse(d.server.URL()+"/"+stream, false)
	if err != nil {
		return err
	}
	a.Read.All, a.Read.ToEnd, a.Read.Dead = true, true, patience
	working, end := context.WithCancel(ctx)
	defer end()
	reading, give := context.WithCancel(context.Background()) // beyond ctx: until the hosts have ended
	defer give()
	var running, starting sync.WaitGroup
	d.makeHosts()
	for _, h := range d.hosts {
		a.Read.Hosts = append(a.Read.Hosts, h.name)
		starting.Add(1)
		h.began = sync.OnceFunc(starting.Done)
		running.Go(func() {
			defer h.began()
			if h.err = d.publish(working, h); h.err != nil {
				end()
				give() // the stream does not say that this one has ended
			}
		})
	}
	var broken error
	running.Go(func() {
		defer end()
		starting.Wait()
		broken = d.wait(working)
	})
	err = tail.Fleet(reading, d.cmd, a, d.output, d.event)
	end()
	running.Wait()
	for _, h := range d.hosts {
		if h.err != nil {
			err = errors.Join(err, fmt.Errorf("host %s: %w", h.name, h.err))
		}
	}
	if err = errors.Join(err, broken); err != nil {
		return err
	}
	return d.conclude()
}

// makeStream makes the stream. Hosts would, but the reader does not wait for that.
func makeStream(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".>"}})
	}
	return err
}

func (d *demo) makeHosts() {
	for i := range d.made {
		d.hosts = append(d.hosts, &host{name: fmt.Sprintf("web-%d", i+1), Probe: lifecycle.NewSimulation(lifecycle.SimulationOptions{Seed: uint64(i), Rate: d.rate})})
	}
	if d.noReal {
		return
	}
	probe, err := lifecycle.Load()
	if err != nil {
		d.note(fmt.Sprintf("without this host: %v", err))
		return
	}
	name, _ := os.Hostname()
	if name == "" || strings.HasPrefix(name, "web-") { // those are made up
		name = "localhost"
	}
	d.hosts = append(d.hosts, &host{name: name, Probe: probe})
}

// wait waits for the end, with an outage in the middle if that is wanted.
func (d *demo) wait(ctx context.Context) error {
	sleep := func(t time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(t):
		}
	}
	sleep(d.duration / 2)
	if d.outage && ctx.Err() == nil {
		d.note(fmt.Sprintf("stopping the server, for %v", outage))
		d.server.Stop()
		sleep(outage)
		if err := d.server.Restart(); err != nil {
			return err
		}
		d.note("the server runs again")
	}
	sleep(d.duration / 2)
	return nil
}
