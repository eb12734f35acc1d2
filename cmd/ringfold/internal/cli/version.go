package cli

import (
	"fmt"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
)

// Version prints it.
func Version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of ringfold and libbpf",
		Args:  Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), perfbuf.Version())
			return err
		},
	}
}
