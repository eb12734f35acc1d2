package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Reasons of gaps that a Reader finds. A Sink has SpoolFull.
const (
	AgentDown       = "agent down"       // nobody has recorded the host's events
	SpoolLost       = "spool lost"       // the host has another spool than before: what that one held may be missing, too
	MissingMessages = "missing messages" // the stream has dropped them, by age or size
	HostSilent      = "host silent"      // nothing has come for too long: others do not wait for it any more
	HostBehind      = "host behind"      // nothing is missing: others' events wait for the host
	TwoAgents       = "two agents"       // two publish as the same host
	Malformed       = "malformed"        // a message could not be read
)

// Missing says whether events may be missing in such a gap. In others they may come late.
func Missing(reason string) bool { return reason != HostSilent && reason != HostBehind }

// Result is what a Reader has read.
type Result struct {
	Hosts      map[string]Host   `json:"hosts"`      // each that was heard of, or is waited for
	Gaps       map[string]uint64 `json:"gaps"`       // how many, by reason
	Duplicates uint64            `json:"duplicates"` // messages
	Malformed  uint64            `json:"malformed"`  // messages
	// Unknown says why events may be missing, between the times that hosts have and before; empty: none
	// is.
	Unknown []string `json:"unknown"`
}

// Host is what is known of a host: all that happened from a time to another, except in its gaps.
type Host struct {
	Events uint64    `json:"events"`        // that were delivered
	Lost   uint64    `json:"lost"`          // that losses have counted
	From   time.Time `json:"from,omitzero"` // UTC; zero: nothing is known
	To     time.Time `json:"to,omitzero"`
	Gaps   uint64    `json:"gaps"`             // in which events may be missing
	Silent bool      `json:"silent,omitempty"` // nothing has come for too long
}

// known adds to what was delivered of each host what is known of it.
func (m *merger) known(delivered map[string]Host) map[string]Host {
	all := map[string]Host{}
	for name, h := range m.hosts {
		one := delivered[name]
		one.Gaps, one.Silent = h.gaps, h.state == silent
		if h.log != nil {
			one.From, one.To = time.Unix(0, h.from).UTC(), time.Unix(0, h.floor).UTC()
		}
		all[name] = one
	}
	return all
}

const timeLayout = "2006-01-02 15:04:05.000000"

func localTime(t time.Time) string { return t.Local().Format(timeLayout) }

// explain fills in Unknown. since is when the reader was asked to begin, zero if it was not.
func (r *Result) explain(since time.Time) {
	r.Unknown = []string{} // in JSON, too
	var holes uint64
	for reason, n := range r.Gaps {
		if Missing(reason) {
			holes += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Hosts)) {
		h := r.Hosts[name]
		holes -= min(h.Gaps, holes)
		switch {
		case h.From.IsZero():
			r.Unknown = append(r.Unknown, name+": nothing has come of it")
			continue
		case !since.IsZero() && h.From.After(since):
			r.Unknown = append(r.Unknown, fmt.Sprintf("%s: unknown before %s", name, localTime(h.From)))
		}
		if h.Lost > 0 {
			r.Unknown = append(r.Unknown, fmt.Sprintf("%s: lost: %d", name, h.Lost))
		}
		if h.Gaps > 0 {
			r.Unknown = append(r.Unknown, fmt.Sprintf("%s: gaps: %d", name, h.Gaps))
		}
		if h.Silent {
			r.Unknown = append(r.Unknown, fmt.Sprintf("%s: silent since %s", name, localTime(h.To)))
		}
	}
	if holes > 0 {
		r.Unknown = append(r.Unknown, fmt.Sprintf("gaps of unknown hosts: %d", holes))
	}
	if len(r.Hosts) == 0 {
		r.Unknown = append(r.Unknown, "no host has been heard of")
	}
}
