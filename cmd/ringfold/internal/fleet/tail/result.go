package tail

import (
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// Item is an event in the stream.
type Item struct {
	Host         string
	BootID       string
	LogID        string
	Sequence     uint64 // of the batch; 0: the merger found the gap itself
	Event        *wire.Event
	Time         uint64 // CLOCK_MONOTONIC of the host, ns
	Wall         int64  // ns since 1970; 0: unknown, in a gap of a host that was never heard of
	Error        uint64 // ns by which Wall may be wrong
	After        int64  // of a gap: since when, ns since 1970; 0: unknown
	Late, Forced bool   // an event with a later Wall came before; it was delivered without proof that it was its turn
}

// Result is what Run has read.
type Result struct {
	Stats
	Malformed uint64 `json:"malformed"`         // messages
	Unread    int    `json:"unread"`            // events that were held back when the Sink had enough
	Waiting   *Wait  `json:"waiting,omitempty"` // in the end
}

// Stats is what has come out of a merger so far.
type Stats struct {
	Events     uint64                   `json:"events"` // without gaps
	ByHost     map[string]Host          `json:"hosts"`  // each host that was heard of, or is waited for
	Late       uint64                   `json:"late"`
	Forced     uint64                   `json:"forced"`
	Duplicates uint64                   `json:"duplicates"` // batches
	Gaps       map[wire.Gap_Reason]Gaps `json:"-"`
	MaxError   time.Duration            `json:"max_error_ns"` // the largest of any event
}

// Host is what is known of a host: all that happened from a time to another, except in its gaps.
type Host struct {
	Events uint64    `json:"events"`
	From   time.Time `json:"from,omitzero"` // UTC; zero: nothing is known
	To     time.Time `json:"to,omitzero"`
	Gaps   uint64    `json:"gaps"`             // in which events may be missing
	Silent bool      `json:"silent,omitempty"` // nothing has come for too long
}

// Gaps counts gaps of one reason.
type Gaps struct {
	Gaps   uint64 `json:"gaps"`
	Events uint64 `json:"missing"` // as far as is known
}

// Wait is a host for which events wait longer than they should.
type Wait struct {
	Host   string        `json:"host"`
	Since  time.Time     `json:"since"`  // UTC
	Events int           `json:"events"` // that are held back
	Behind time.Duration `json:"-"`      // how far the host is behind the broker's clock; 0: it was never heard of
}
