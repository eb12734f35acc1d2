package record

import (
	"context"
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
	files   []string // snapshots that are there
	enough  func()   // ends it
	signals chan os.Signal
	watch
}

// fly keeps the newest events, and writes snapshots.
func (c *config) fly(cmd *cobra.Command) error {
	set, err := c.Choose()
	if err != nil {
		return err
	}
	defer set.Close()
	r := &recorder{config: c, cmd: cmd, set: set, signals: make(chan os.Signal, 1), sum: &summary{}}
	if r.events, err = set.Events(); err != nil {
		return err
	}
	o := flight.Options{MinAge: c.flight, CPUs: c.CPUs}
	if o.MaxBytes, err = c.bytes(); err != nil {
		return err
	}
	if at := set.Sources[0].TimeAt; at != nil && c.Trigger != "" {
		return cli.Usagef("--trigger goes by the kernel's times, in which events come: leave time=%d out", *at)
	} else if at != nil {
		o.Time = perfbuf.PayloadTime(*at)
	}
	signal.Notify(r.signals, syscall.SIGUSR1)
	defer signal.Stop(r.signals)
	if r.rec, err = flight.Open(set.Sources[0].FD(), o); err != nil {
		return err
	}
	defer r.rec.Close()
	set.Announce()
	if r.rec.Stats().ReplacedEntries > 0 {
		set.Note("taken over: its previous reader receives nothing until it is restarted")
	}
	set.Note("keeping the last %v: kill -USR1 %d writes a snapshot", c.flight, os.Getpid())
	ctx, enough := context.WithCancel(cmd.Context())
	defer enough()
	r.begin, r.enough = time.Now(), enough
	if err := set.Run(ctx, r, nil, func() error { return nil }); err != nil {
		return err
	}
	r.sum.end(set, time.Since(r.begin))
	return c.print(cmd, map[string]any{"summary": r.sum}, fmt.Sprintf("%d snapshots in %.1f s", r.sum.Snapshots, r.sum.Seconds)+ended(r.sum.Command))
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

// full reports whether there are enough snapshots.
func (r *recorder) full() bool {
	if r.snapshotDir == "" {
		return r.sum.Snapshots == 1
	}
	return r.Count > 0 && uint64(r.sum.Snapshots) >= r.Count
}

// Wait waits for triggers and writes snapshots, until ctx is done or something fails.
func (r *recorder) Wait(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	if r.Trigger == "" {
		timer.Stop()
	}
	for !r.full() {
		why := "signal"
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.signals:
		case <-timer.C:
			found, err := r.look(ctx)
			timer.Reset(r.every)
			if err != nil {
				return err
			} else if !found {
				continue
			}
			why = "event"
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(r.after):
		}
		if err := r.snapshot(ctx, why); err != nil {
			return err
		}
	}
	if len(r.Command) == 0 {
		r.enough()
	}
	<-ctx.Done()
	return ctx.Err()
}

// ForEach has nothing to hand over.
func (*recorder) ForEach(func(perfbuf.Event) error) error { return nil }

// ForEachBatch has nothing to hand over.
func (*recorder) ForEachBatch(func(*perfbuf.Batch) error) error { return nil }

// Shutdown writes what there is at the end, if there are not enough snapshots.
func (r *recorder) Shutdown(ctx context.Context, _ func(perfbuf.Event) error) error {
	if r.full() {
		return nil
	}
	return r.snapshot(ctx, "end")
}

// snapshot writes what the rings hold.
func (r *recorder) snapshot(ctx context.Context, why string) error {
	snap, err := r.rec.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Release()
	r.triggered(snap.Until(), r.flight)
	path := r.write
	if r.snapshotDir != "" {
		path = filepath.Join(r.snapshotDir, time.Now().UTC().Format("ringfold-20060102T150405.000000Z.data"))
	}
	rec, err := r.create(path, r.cmd.OutOrStdout(), perfdata.Options{Events: r.events, Since: snap.CompleteSince(), Until: snap.Until()})
	if err != nil {
		return err
	}
	for ev := range snap.Events() {
		if r.set.Matches(ev) && rec.Record(ev) != nil {
			break // Close has the error
		}
	}
	if err := rec.Close(); err != nil {
		return err
	}
	if snap.Age() < r.flight && time.Since(r.begin) > r.flight {
		r.set.Note("the rings hold only the last %v: --ring-size makes them larger", snap.Age())
	}
	s := snapshot{path, why, rec.Stats().Samples, rec.Stats().Lost, snap.CompleteSince(), snap.Until(), snap.Age().Seconds()}
	r.sum.snapshot(s, rec.Stats().Bytes)
	if err := r.print(r.cmd, map[string]any{"snapshot": s}, s.String()); err != nil {
		return err
	}
	return r.forget(path)
}

// forget removes the oldest snapshots, if there are more than --max-files.
func (r *recorder) forget(newest string) error {
	r.files = append(r.files, newest)
	if r.maxFiles == 0 || len(r.files) <= r.maxFiles {
		return nil
	}
	oldest := r.files[0]
	r.files = r.files[1:]
	return os.Remove(oldest)
}
