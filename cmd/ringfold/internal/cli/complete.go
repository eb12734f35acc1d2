package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeFlags has the shell complete values of flags as --help calls them: a|b is one of these, file and directory are
// such, and nothing is offered for others. A command may have registered more.
func completeFlags(cmd *cobra.Command) {
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, _ := pflag.UnquoteUsage(f)
		_, registered := cmd.GetFlagCompletionFunc(f.Name)
		complete := cobra.CompletionFunc(nil)
		switch {
		case registered:
		case value == "file":
			complete = CompleteFiles
		case value == "directory":
			complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		case strings.Contains(value, "|"):
			complete = cobra.FixedCompletions(strings.Split(value, "|"), cobra.ShellCompDirectiveNoFileComp)
		}
		if complete != nil {
			cmd.RegisterFlagCompletionFunc(f.Name, complete)
		}
	})
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// CompleteFiles is a cobra.CompletionFunc: all files.
var CompleteFiles = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
