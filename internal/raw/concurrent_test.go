package raw_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// One goroutine writes as the kernel does while another reads: every record arrives whole, in
// order, and every failed output is counted. Both go on until enough has been read and lost,
// whichever of the two a busy machine favours.
func TestReaderAndWriterAtTheSameTime(t *testing.T) {
	const least = 200_000
	attempts := uint64(0) // the writer owns it until it is done
	var enough atomic.Bool
	w := ringtest.New(2048, raw.LayoutRawTime, 1<<32-4096)
	r := w.Raw()
	done := make(chan error, 1)
	go func() {
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := uint64(0); i < least || !enough.Load(); i++ {
			attempts++
			if err := w.Output(i, ringtest.Payload(i, ringtest.MinPayload+rnd.IntN(100))); err != nil && !errors.Is(err, syscall.ENOSPC) {
				done <- err
				return
			}
			if rnd.IntN(32) == 0 {
				runtime.Gosched()
			}
		}
		done <- nil
	}()

	var got tally
	running := true
	for rnd := rand.New(rand.NewPCG(3, 4)); running; {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false // read once more
		default:
		}
		got.drain(t, r, r.Head())
		enough.Store(got.lost > 0 && got.delivered > least/100)
		if rnd.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
	require.Equal(t, attempts, got.delivered+got.lost+w.Pending())
	require.Equal(t, r.Head(), r.Tail())
}

// However a reader sees that a record is committed, it sees the payload too: the race detector
// checks.
func TestCommitPublishesThePayload(t *testing.T) {
	payload := fielded(7, 1, 40)
	for name, look := range map[string]func(r *raw.Ring, head uint64) (ev raw.Event, ok bool){
		"Parse": func(r *raw.Ring, head uint64) (ev raw.Event, ok bool) {
			var rec raw.Record
			r.Parse(0, head, &rec)
			if ok = rec.Kind == raw.Sample; ok {
				ev = new(raw.Single).Join(r, &rec)
			}
			return ev, ok
		},
		"Events": func(r *raw.Ring, head uint64) (raw.Event, bool) {
			var evs [1]raw.Event
			n, _, _ := r.Events(0, head, head, evs[:])
			return evs[0], n == 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ringtest.NewRingBuf(128, 0)
			rec, err := w.Reserve(len(payload))
			require.NoError(t, err)
			go func() {
				rec.Write(0, payload)
				rec.Commit(0)
			}()
			r, head := w.Raw(), w.Head()
			ev, ok := look(r, head)
			for ; !ok; ev, ok = look(r, head) {
				runtime.Gosched()
			}
			require.Equal(t, string(payload), string(ev.Bytes()))
		})
	}
}

type tally struct {
	delivered, lost uint64
	next            uint64 // the least id of the next sample
	report          uint64 // time of the loss before, +1
	alone           raw.Single
}

func (c *tally) drain(t *testing.T, r *raw.Ring, head uint64) {
	for off := r.Tail(); off != head; {
		rec := parse(t, r, off, head)
		switch rec.Kind {
		case raw.Sample:
			id, err := ringtest.Check(c.alone.Join(r, &rec).Bytes())
			if err != nil || id != rec.Time || id != c.next {
				t.Fatalf("sample %d of time %d where %d was due: %v", id, rec.Time, c.next, err)
			}
			if c.report != 0 && rec.Time != c.report-1 {
				t.Fatalf("loss of time %d before a sample of time %d", c.report-1, rec.Time)
			}
			c.delivered, c.next, c.report = c.delivered+1, id+1, 0
		case raw.Lost:
			c.lost += rec.Lost
			c.next += rec.Lost // each failed output skips one id
			c.report = rec.Time + 1
		default:
			t.Fatalf("%+v at %d", rec, off)
		}
		off += rec.Size
		r.SetTail(off)
	}
}
