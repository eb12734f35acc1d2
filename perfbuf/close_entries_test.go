package perfbuf

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pass or a Resume that entered before Close changes entries just as Close empties them: it puts
// none back. A later Resume is refused.
func TestCloseLeavesNoEntry(t *testing.T) {
	for name, meanwhile := range map[string]func(k *belled){
		"a pass": func(*belled) {},
		// It has entered
		"resume":           func(k *belled) { require.NoError(t, k.in.Entries.Resume()) },
		"resume, too late": func(k *belled) { require.Equal(t, os.ErrClosed, k.Resume()) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newBelled(t, 2)
			require.True(t, k.in.Entries.Arm(0))
			k.requireEntries(bellEntry, plainEntry)
			if name != "a pass" {
				require.NoError(t, k.Pause())
			}
			k.output(0, 1)
			inside, goOn, done := make(chan bool), make(chan bool), make(chan error)
			go func() {
				done <- k.unordered().ForEach(func(Event) error { inside <- true; <-goOn; return nil })
			}()
			<-inside
			k.hooks.unhook = func() error {
				for i := range k.all() {
					require.NoError(t, k.store(i, noEntry))
				}
				meanwhile(k)
				close(goOn)
				require.Equal(t, os.ErrClosed, <-done)
				k.requireEntries(noEntry, noEntry)
				return nil
			}
			require.NoError(t, k.Close())
			k.requireEntries(noEntry, noEntry)
		})
	}
}
