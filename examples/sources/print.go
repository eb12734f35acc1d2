package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/ringfold/ringfold/perfbuf"
)

// printer prints events and counts them.
type printer struct {
	asJSON bool
	names  map[*perfbuf.Reader]string
	first  uint64 // time of the first event
	last   uint64 // time of the latest
	from   map[*perfbuf.Reader]bool
	counts summary
}

// object is an event.
type object struct {
	Source string `json:"source"`
	Time   uint64 `json:"time_ns"`
	CPU    int    `json:"cpu"`
	Kind   string `json:"kind"`
	Lost   uint64 `json:"lost,omitempty"`
	Text   string `json:"text,omitempty"`
}

type summary struct {
	Events     uint64 `json:"events"`
	Sources    int    `json:"sources"` // that had events
	OutOfOrder uint64 `json:"out_of_order"`
	Late       uint64 `json:"late"`
	Lost       uint64 `json:"lost"`
}

// print prints an event, a sample as this text.
func (p *printer) print(ev perfbuf.Event, format string, args ...any) error {
	o := object{Source: p.names[ev.Source()], Time: ev.Time(), CPU: ev.CPU(), Kind: ev.Kind().String(), Lost: ev.Lost()}
	if ev.Kind() == perfbuf.KindSample {
		o.Text = fmt.Sprintf(format, args...)
		p.count(ev)
	}
	if p.asJSON {
		return json.NewEncoder(os.Stdout).Encode(o)
	}
	if o.Text == "" { // a loss
		o.Text = ev.String()
	}
	_, err := fmt.Printf("%11.6f  cpu %-3d %-9s %s\n", float64(ev.Time()-p.first)/1e9, o.CPU, o.Source, o.Text)
	return err
}

func (p *printer) count(ev perfbuf.Event) {
	if p.from == nil {
		p.first, p.from = ev.Time(), map[*perfbuf.Reader]bool{}
	}
	p.from[ev.Source()] = true
	p.counts.Events++
	if ev.Time() < p.last {
		p.counts.OutOfOrder++
	}
	p.last = max(p.last, ev.Time())
}

// summary is for the end: the readers are closed.
func (p *printer) summary() error {
	s := p.counts
	s.Sources = len(p.from)
	for r := range p.names {
		<-r.Done()
		s.Late += r.Stats().Late
		s.Lost += r.Stats().Total().Lost
	}
	if p.asJSON {
		return json.NewEncoder(os.Stdout).Encode(map[string]summary{"summary": s})
	}
	_, err := fmt.Printf("%d events of %d sources, %d out of order, %d late, %d lost\n", s.Events, s.Sources, s.OutOfOrder, s.Late, s.Lost)
	return err
}
