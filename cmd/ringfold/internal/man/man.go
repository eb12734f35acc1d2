// Package man writes the manual pages.
package man

import (
	"os"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Command is ringfold man, which `make man` and packagers call.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write the manual pages of all commands to a directory",
		Hidden: true,
		Args:   cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // a date, by which the pages would differ every day
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "ringfold", Manual: "ringfold"}, args[0])
		},
	}
}
