package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// Notes returns a function that prints diagnostics. Any goroutine may call it.
func Notes(cmd *cobra.Command) func(string) {
	n := noter{print: func(text string) { cmd.PrintErrln(cmd.CommandPath() + ": " + text) }, now: time.Now, said: map[string]*saying{}}
	return n.note
}

// noter prints a text that repeats once a minute, with how often it came: a server that refuses
// each message says so each time.
type noter struct {
	print func(string)
	now   func() time.Time

	mu   sync.Mutex
	said map[string]*saying
}

// saying is a text that was printed.
type saying struct {
	at   time.Time
	more int // times that it has come since
}

// mostSaid bounds the memory for texts, parts of which come from the server.
const mostSaid = 1000

func (n *noter) note(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	s := n.said[text]
	switch {
	case s == nil:
		n.print(text)
	case now.Sub(s.at) < time.Minute:
		s.more++
		return
	case s.more == 0:
		n.print(text)
	default:
		n.print(fmt.Sprintf("%s (and %d times since it was last said, %v ago)", text, s.more, now.Sub(s.at).Round(time.Second)))
	}
	if len(n.said) >= mostSaid {
		clear(n.said)
	}
	n.said[text] = &saying{at: now}
}
