package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/spf13/cobra"
)

// recorder is a flight recorder with its triggers. To source.Set.Run it is a stream without events, whose end writes a snapshot.
type recorder struct {
	*config
	cmd     *cobra.Command
	set     *source.Set
	rec     *flight.Recorder
	events  []perfdata.EventInfo
	sum     *summary
	begin   time.Time
	enough  func() // ends it
	signals chan os.Signal
	taken   int // entries that other readers have taken, as far as Run knows
	watch
	pending
}

// fly keeps the newest events, and writes snapshots.
func (c *config) fly(cmd *cobra.Command) error {
	c.Writes = []string{c.write}
	switch {
	case c.sink != nil:
		c.Writes = nil
	case c.snapshotDir != "":
		c.Writes = []string{filepath.Join(c.snapshotDir, "ringfold.data")}
	}
	set, err := c.ChooseOne()
	if err != nil {
		return err
	}
	defer set.Close()
	r := &recorder{config: c, cmd: cmd, set: set, signals: make(chan os.Signal, 1), sum: &summary{}}
	r.retry = time.NewTimer(0)
	r.retry.Stop()
	defer r.retry.Stop()
	if r.events, err = set.Events(); err != nil {
		return err
	}
	from := set.Sources[0]
	o := flight.Options{MinAge: c.flight, Time: from.Time(), CPU: from.CPU()}
	if !from.RingBuf() {
		if o.CPUs = c.CPUs; c.Trigger != "" && from.TimeAt != nil {
			return cli.Usagef("--trigger goes by the kernel's times, in which events come: leave time=%d out", *from.TimeAt)
		}
		if o.MaxBytes, err = c.bytes(); err != nil {
			return err
		}
	}
	signal.Notify(r.signals, syscall.SIGUSR1)
	defer signal.Stop(r.signals)
	if r.rec, err = flight.Open(from.FD(), o); err != nil {
		return err
	}
	defer r.rec.Close()
	from.Flight = r.rec
	set.Announce()
	if r.rec.Stats().ReplacedEntries > 0 {
		set.Note("taken over: its previous reader receives nothing until it is restarted")
	}
	set.Note("keeping the last %v: kill -USR1 %d writes a snapshot", c.flight, os.Getpid())
	ctx, enough := context.WithCancel(cmd.Context())
	defer enough()
	r.begin, r.enough = time.Now(), enough
	failed := set.Run(ctx, r, nil, func() error { return nil })
	r.sum.end(set, time.Since(r.begin))
	text := fmt.Sprintf("%d snapshots in %.1f s", r.sum.Snapshots, r.sum.Seconds) + ended(r.sum.Command)
	return errors.Join(failed, c.print(cmd, map[string]any{"summary": r.sum}, text))
}

// bytes is the size of all rings.
func (c *config) bytes() (int, error) {
	cpus := c.CPUs
	if cpus == nil {
		var err error
		if cpus, err = cpulist.Online(cpulist.Dir); err != nil {
			return 0, err
		}
	}
	return int(c.RingSize) * len(cpus), nil
}

// displacedEvery is how often a recorder looks whether it still has the map.
const displacedEvery = 2 * time.Second

// displaced is an ErrDisplaced if other readers have taken more of the map since the last call. It waits for
// snapshots that cannot be written yet: the error ends the command, and they would be lost.
func (r *recorder) displaced() error {
	if n := r.rec.Displaced().Entries; n > r.taken && len(r.held) == 0 {
		r.taken = n
		return perfbuf.ErrDisplaced
	}
	return nil
}

// RunBatches waits for triggers and writes snapshots, until ctx is done, something fails or another reader takes the map.
// It has no events to hand over.
func (r *recorder) RunBatches(ctx context.Context, _ func(*perfbuf.Batch) error) error {
	looks := time.NewTimer(0)
	defer looks.Stop()
	if r.Trigger == "" {
		looks.Stop()
	}
	owned := time.NewTicker(displacedEvery)
	defer owned.Stop()
	for !r.full() {
		why := "signal"
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.signals:
		case <-r.retry.C:
			why = ""
		case <-owned.C:
			if err := r.displaced(); err != nil {
				return err
			}
			continue
		case <-looks.C:
			found, err := r.look(ctx)
			looks.Reset(r.every)
			if err != nil {
				return err
			} else if !found {
				continue
			}
			why = "event"
		}
		if why != "" {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(r.after):
			}
			if err := r.take(ctx, why); err != nil {
				return err
			}
		}
		if err := cmp.Or(r.save(), r.displaced()); err != nil {
			return err
		}
	}
	if len(r.Command) == 0 {
		r.enough()
	}
	<-ctx.Done()
	return ctx.Err()
}

// Shutdown writes what there is at the end, if there are not enough snapshots.
func (r *recorder) Shutdown(ctx context.Context, _ func(perfbuf.Event) error) error {
	r.ending = true
	var taken error
	if !r.full() {
		if err := r.take(ctx, "end"); err != nil {
			return err
		}
		if err := r.save(); err != nil {
			return err
		}
		taken = r.displaced()
	}
	return cmp.Or(r.missing(), taken)
}
