// Package doctor looks at what the machine and its user permit, and says what is wrong and how to fix it.
package doctor

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
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
			r := Examine(cmd.Context())
			var err error
			if out.Format == cli.JSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			} else {
				err = r.text(cmd.OutOrStdout(), out.Format)
			}
			if err == nil && r.BadChecks > 0 {
				err = errors.New(plural(r.BadChecks))
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	out.Flags(cmd.Flags())
	return cmd
}

func plural(n int) string {
	if n == 1 {
		return "1 check is bad"
	}
	return fmt.Sprintf("%d checks are bad", n)
}
