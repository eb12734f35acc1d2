package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"golang.org/x/sys/unix"
)

// life is what the programs output, as in recorder.bpf.c.
type life struct {
	What [8]byte
	PID  uint32
	Code int32
	File [48]byte
}

var asLife = perfbuf.NewDecoder[life]()

// event is what -json prints of one.
type event struct {
	Time uint64 `json:"time_ns"`
	CPU  int    `json:"cpu"`
	Kind string `json:"kind"`
	Len  int    `json:"len"`
	Lost uint64 `json:"lost,omitempty"`
	Text string `json:"text,omitempty"`
}

type summary struct {
	Events     uint64 `json:"events"`
	Lost       uint64 `json:"lost"`
	OutOfOrder uint64 `json:"out_of_order"`
	First      uint64 `json:"first_ns"` // times of the first and the last event
	Last       uint64 `json:"last_ns"`
	Since      uint64 `json:"complete_since_ns"` // of a snapshot: from then on it has every event
}

// replay prints the events of a file. It needs no root.
func replay(ctx context.Context, file string, asJSON bool) {
	reader := must(perfdata.Open(file, perfdata.ReplayOptions{}))
	defer reader.Close()
	stream := must(reader.Ordered(perfbuf.OrderOptions{}))
	var s summary
	var err error
	s.Since, _, err = perfdata.Times(file)
	must(0, err)
	out := json.NewEncoder(os.Stdout)
	ended := stream.Run(ctx, func(ev perfbuf.Event) error {
		o := event{ev.Time(), ev.CPU(), ev.Kind().String(), ev.Len(), ev.Lost(), text(ev)}
		s.count(ev)
		if asJSON {
			return out.Encode(o)
		}
		_, err := fmt.Printf("%11.6f  cpu %-3d %s\n", float64(o.Time-s.First)/1e9, o.CPU, o.Text)
		return err
	})
	if asJSON {
		must(0, out.Encode(map[string]summary{"summary": s}))
	} else {
		must(fmt.Printf("%d events, %d lost, %d out of order\n", s.Events, s.Lost, s.OutOfOrder))
	}
	if !errors.Is(ended, io.EOF) { // a file that was cut, say
		log.Fatal(ended)
	}
}

func text(ev perfbuf.Event) string {
	e, ok := asLife.Decode(ev)
	switch what := unix.ByteSliceToString(e.What[:]); {
	case ok && what == "exec":
		return fmt.Sprintf("%d executes %s", e.PID, unix.ByteSliceToString(e.File[:]))
	case ok && what == "exit":
		return fmt.Sprintf("%d exits with %d", e.PID, e.Code)
	}
	return ev.String() // a loss, or of another program
}

func (s *summary) count(ev perfbuf.Event) {
	if s.First == 0 {
		s.First = ev.Time()
	}
	if ev.Time() < s.Last {
		s.OutOfOrder++
	}
	s.Last = max(s.Last, ev.Time())
	s.Lost += ev.Lost()
	if ev.Kind() == perfbuf.KindSample {
		s.Events++
	}
}
