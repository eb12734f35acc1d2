package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// insistence is how long after the first signal, and as which one, a further signal kills the process.
// Earlier ones are the same wish once more: timeout(1) signals its child and then its process group,
// and sudo passes each of these on.
const (
	insistence = time.Second
	insistent  = 3
)

// untilSignal returns a context that ends at the first Ctrl-C, SIGTERM or SIGHUP. A later one that is
// insistent does what it would do without us. Call stop when the command has ended.
func untilSignal() (_ context.Context, stop func()) {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		all = append(all, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(context.Background())
	caught, ended := make(chan os.Signal, 16), make(chan struct{})
	signal.Notify(caught, all...)
	go func() {
		var first time.Time
		for n := 1; ; n++ {
			select {
			case <-ended:
				return
			case s := <-caught:
				if n == 1 {
					first = time.Now()
					cancel()
				} else if n >= insistent && time.Since(first) >= insistence {
					signal.Reset(all...)
					_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		close(ended)
		cancel()
	}
}
