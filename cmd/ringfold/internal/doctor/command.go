// Package doctor looks at what the machine and its user permit, and says what is wrong and how to fix it.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
)

// Command is "ringfold doctor".
func Command() *cobra.Command {
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what works on this machine, and how to fix what does not",
		Long: `Check the kernel, its settings and your privileges; then open rings, attach a program and read an
event. Each line is ok, warn (something is slower, smaller or cannot be seen) or bad (something does
not work), and says how to fix it. It also runs without root, and says what it could not see.

It exits with 1 if something is bad.`,
		Example: `  ringfold doctor
  sudo ringfold doctor
  ringfold doctor --json    # one object, for bug reports`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := examine(cmd.Context())
			var err error
			if out.Format == cli.JSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			} else {
				err = r.text(cmd.OutOrStdout(), out.Format)
			}
			if err == nil && r.BadChecks > 0 {
				err = fmt.Errorf("bad checks: %d", r.BadChecks)
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	out.Flags(cmd.Flags())
	return cmd
}

// examine looks at everything. It blocks for up to some seconds, and leaves nothing behind.
func examine(ctx context.Context) *Report {
	r := &Report{Version: perfbuf.Version()}
	for _, check := range []func(){r.kernel, r.ringBuffers, r.cpus, r.clock, r.btf, r.privileges, r.sandbox, r.paranoid, r.lockedMemory, r.openFiles} {
		check()
	}
	r.rings(ctx)
	return r
}
