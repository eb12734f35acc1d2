package perfbuftest

import "github.com/ringfold/ringfold/perfbuf"

// Open is [perfbuf.Open] on this kernel's perf event array: it checks the options in the same way
// and returns a Reader that works like any other. As there, a second Reader replaces the first in
// the array.
func (k *Kernel) Open(o perfbuf.Options) (*perfbuf.Reader, error) {
	return perfbuf.OpenSource(k.sim.NewBuffer(), o)
}
