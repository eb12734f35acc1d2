package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/internal/newfile"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// pending are snapshots of a flight recorder that could not be written yet, and those that were. A full
// disk must neither end the recorder nor lose what it was started for.
type pending struct {
	held    []*taken
	leftOut int         // that were not even held
	ending  bool        // there is no other try
	retry   *time.Timer // until held are tried again
	files   []string    // written, the oldest first, for --max-files
}

// taken is a snapshot in memory.
type taken struct {
	*flight.Snapshot
	why, path string
	err       error // why it was not written; nil before the first try
}

const (
	mostHeld   = 4 // each takes as much memory as all rings
	retryAfter = time.Second
)

// full reports whether there are enough snapshots.
func (r *recorder) full() bool { return r.wanted() == 0 && len(r.held) == 0 }

// wanted is how many more snapshots are to be taken.
func (r *recorder) wanted() uint64 {
	n := r.Count
	if r.snapshotDir == "" && r.sink == nil {
		n = 1
	} else if n == 0 {
		return mostHeld
	}
	return n - uint64(r.sum.Snapshots+len(r.held))
}

// take takes a snapshot of what the rings hold, if another one is wanted.
func (r *recorder) take(ctx context.Context, why string) error {
	switch {
	case r.wanted() == 0:
		return nil
	case len(r.held) == mostHeld:
		if r.leftOut++; r.leftOut == 1 { // there may be one at every look
			r.set.Note("left out a snapshot (%s), as maybe more to come: %d wait already until they can be written", why, mostHeld)
		}
		return nil
	}
	snap, err := r.rec.Snapshot(ctx)
	if err != nil {
		return err
	}
	r.triggered(perfbuf.Now(), r.flight)
	path := r.write
	if r.snapshotDir != "" {
		path = filepath.Join(r.snapshotDir, time.Now().UTC().Format("ringfold-20060102T150405.000000Z.data"))
	}
	r.held = append(r.held, &taken{snap, why, path, nil})
	if snap.Age() < r.flight && time.Since(r.begin) > r.flight {
		r.set.Note("the rings hold only the last %v: %s", snap.Age(), r.larger(snap.Age(), r.flight))
	}
	return nil
}

// larger is what to do to have as much as is wanted.
func (r *recorder) larger(age, wanted time.Duration) string {
	if r.set.Sources[0].RingBuf() {
		return "create the ring buffer with larger max_entries"
	}
	return larger(r.RingSize, age, wanted)
}

// larger says with which rings there would be as much as is wanted.
func larger(size cli.Size, age, wanted time.Duration) string {
	const most = 1 << 30 // of a ring
	size = 1 << (bits.Len64(uint64(size)) - 1)
	need := float64(size) * float64(wanted) / float64(age)
	if need > most {
		size, wanted = most, time.Duration(float64(age)*float64(most)/float64(size)).Round(time.Millisecond)
	} else {
		size = 1 << bits.Len64(uint64(need)-1)
	}
	return fmt.Sprintf("--ring-size %v would hold %v, if as much comes", &size, wanted)
}

// save writes what is held, the oldest first. What cannot be written stays for the next try.
func (r *recorder) save() error {
	for ; len(r.held) > 0; r.held = r.held[1:] {
		one := r.held[0]
		samples, filtered := r.set.Samples, r.set.Filtered
		stats, err := r.file(one)
		if err != nil && (one.path == "-" || newfile.Special(one.path)) {
			return err // part of it is there, and cannot be taken back
		}
		if err != nil {
			r.set.Samples, r.set.Filtered = samples, filtered
			if one.err == nil && !r.ending {
				r.set.Note("%v: keeping the snapshot (%s) in memory, to try again every %v; recording goes on", err, one.why, retryAfter)
			}
			one.err = err
			r.retry.Reset(retryAfter)
			return nil
		}
		if one.err != nil {
			r.set.Note("%s is written now", one.path)
		}
		s := snapshot{one.path, one.why, stats.Samples, stats.Lost, one.CompleteSince(), one.Until(), one.Age().Seconds()}
		one.Release()
		r.sum.snapshot(s, stats.Bytes)
		if err := r.print(r.cmd, map[string]any{"snapshot": s}, s.String()); err != nil {
			return err
		}
		r.forget(one.path)
	}
	return nil
}

// file writes one to its file.
func (r *recorder) file(one *taken) (perfdata.Stats, error) {
	o := perfdata.Options{Events: r.events, Since: one.CompleteSince(), Until: one.Until()}
	if r.sink != nil {
		return r.publish(one, o)
	}
	rec, err := r.create(one.path, r.cmd.OutOrStdout(), o)
	if err != nil {
		return perfdata.Stats{}, err
	}
	return r.copy(one, rec)
}

// publish publishes one, as all that is known of this host between its times.
func (r *recorder) publish(one *taken, o perfdata.Options) (perfdata.Stats, error) {
	a := *r.sink
	a.Write.Note, a.Write.Wait = cli.Notes(r.cmd), true
	sink, err := a.OpenSink()
	if err != nil {
		return perfdata.Stats{}, err
	}
	sink.Begin(o.Since)
	var stats perfdata.Stats
	o.BufferBytes = fleet.BufferBytes
	rec, err := perfdata.NewRecorder(sink, o)
	if err == nil {
		stats, err = r.copy(one, rec)
	}
	if err == nil {
		err = sink.Round(o.Until)
	}
	_, failed := sink.Close(err == nil)
	return stats, errors.Join(err, failed)
}

// copy records a snapshot.
func (r *recorder) copy(one *taken, rec *perfdata.Recorder) (perfdata.Stats, error) {
	for ev := range one.Events() {
		if r.set.Matches(ev) && rec.Record(ev) != nil {
			break // Close has the error
		}
	}
	err := rec.Close()
	return rec.Stats(), err
}

// missing is an error if snapshots were not written.
func (r *recorder) missing() error {
	switch {
	case len(r.held) > 0:
		return fmt.Errorf("%d snapshots are lost: %w", len(r.held)+r.leftOut, r.held[0].err)
	case r.leftOut > 0:
		return fmt.Errorf("%d snapshots were left out, as earlier ones could not be written", r.leftOut)
	}
	return nil
}

// forget removes the oldest snapshots, if there are more than --max-files. Somebody may have done so.
func (r *recorder) forget(newest string) {
	if r.maxFiles == 0 {
		return
	}
	for r.files = append(r.files, newest); len(r.files) > r.maxFiles; r.files = r.files[1:] {
		if err := os.Remove(r.files[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.set.Note("--max-files: %v", err)
		}
	}
}
