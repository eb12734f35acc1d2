package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// Set and String make it a flag.
func (m *mode) Set(s string) error {
	i := slices.Index(modes, s)
	if i < 0 {
		return fmt.Errorf("modes are %s", strings.Join(modes, ", "))
	}
	*m = mode(i)
	return nil
}

// order is the mode as the library has it. Unordered has none.
func (m mode) order(slackTime time.Duration) perfbuf.Mode {
	if m == slack {
		return perfbuf.Slack(slackTime)
	}
	return perfbuf.Exact()
}
