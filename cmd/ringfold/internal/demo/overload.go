package demo

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/perfbuf"
)

//go:embed overload.bpf.o
var overloadObject []byte

// flooded is what became of a lane's events.
type flooded struct {
	Attempted uint64 `json:"attempted"`
	Delivered uint64 `json:"delivered"`
	Shed      uint64 `json:"shed"`
	Lost      uint64 `json:"lost"`
}

// flood is what became of a flood's events, with lanes or without.
type flood struct {
	Lanes     bool    `json:"lanes"`
	Important flooded `json:"important"`
	Others    flooded `json:"others"`
}

// overload floods the rings twice, without lanes and with them, and prints what became of the important events.
func overload(ctx context.Context, c config, out io.Writer) error {
	programs, err := bpfload.Load(overloadObject)
	if err != nil {
		return fmt.Errorf("loading the BPF program of the flood: %w", err)
	}
	defer programs.Close()
	var floods []flood
	for _, shares := range [][]int{nil, {50, 100}} {
		f, err := floodOnce(ctx, programs, perfbuf.Options{RingBytes: int(c.ringSize), LanesFD: programs.Maps["lanes"].FD(), Lanes: shares}, c.duration/2)
		if err != nil {
			return err
		}
		floods = append(floods, f)
	}
	if c.Format == cli.JSON {
		return json.NewEncoder(out).Encode(floods)
	}
	fmt.Fprintln(out, "The same flood twice, on all CPUs, of far more events than their reader can handle:")
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tATTEMPTED\tDELIVERED\tSHED\tLOST\t")
	for _, f := range floods {
		with := "no lanes"
		if f.Lanes {
			with = "lanes"
		}
		for _, l := range []struct {
			name string
			flooded
		}{{"important", f.Important}, {"others", f.Others}} {
			fmt.Fprintf(table, "%s, %s\t%s\t%s\t%s\t%s\t\n", with, l.name, cli.Count(l.Attempted), cli.Count(l.Delivered), cli.Count(l.Shed), cli.Count(l.Lost))
		}
	}
	table.Flush()
	_, err = fmt.Fprintln(out, "\nWith lanes, programs leave out the others while a ring is half full, and count them: see docs/overload.md.")
	return err
}

// leastRuns of the flood on each CPU overflow any ring of the default size, however busy the machine is.
const leastRuns = 500

// floodOnce reads a flood that lasts so long, slower than it comes.
func floodOnce(ctx context.Context, programs *bpfload.Programs, o perfbuf.Options, d time.Duration) (f flood, err error) {
	reader, err := perfbuf.Open(programs.Maps["overload"].FD(), o)
	if err != nil {
		return f, err
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		return f, err
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all sync.WaitGroup
	failed := make(chan error, len(reader.Rings()))
	for _, ring := range reader.Rings() {
		all.Go(func() {
			for n := 0; n < leastRuns || ctx.Err() == nil; n++ {
				err := programs.RunOn(ring.CPU(), "flood", [1]uint64{})
				if err != nil && !errors.Is(err, syscall.ENXIO) { // it is offline
					failed <- fmt.Errorf("the flood on CPU %d: %w", ring.CPU(), err)
					return
				}
			}
		})
	}
	handle := func(perfbuf.Event) error {
		for begin := perfbuf.Now(); perfbuf.Now()-begin < 2000; { // as if it took 2 us
		}
		return nil
	}
	err = stream.Run(ctx, handle)
	all.Wait()
	select {
	case err = <-failed:
		return f, err
	default:
	}
	if err != nil && ctx.Err() == nil {
		return f, err
	}
	if err = stream.Shutdown(context.Background(), handle); err != nil {
		return f, err
	}
	<-reader.Done() // the counts are final
	f.Lanes = len(o.Lanes) > 0
	for _, c := range reader.Stats().Outputs.CPUs {
		l := []*flooded{&f.Others, &f.Important}[c.Lane]
		l.Attempted, l.Delivered, l.Shed = l.Attempted+c.Attempted, l.Delivered+c.Written, l.Shed+c.Shed
		l.Lost += c.Attempted - c.Written - c.Shed
	}
	return f, nil
}
