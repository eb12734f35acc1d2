package top

import (
	"slices"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// mode is how events are read.
type mode int

const (
	unordered mode = iota // ring by ring
	slack
	exact
)

var modes = []string{"unordered", "slack", "exact"}

func (m mode) String() string { return modes[m] }

// next is the one that the key chooses.
func (m mode) next() mode { return (m + 1) % mode(len(modes)) }

// modeOf is the one that the command line names.
func modeOf(m source.Mode) mode { return mode(slices.Index(modes, string(m))) }

// order is the mode as the library has it. Unordered has none.
func (m mode) order(slackTime time.Duration) perfbuf.Order {
	if m == slack {
		return perfbuf.Slack(slackTime)
	}
	return perfbuf.Order{}
}
