package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// OnlyCommands is the cobra.PositionalArgs of a command whose first argument must be a command below it.
func OnlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &UsageError{didYouMean(fmt.Errorf("unknown command %q", args[0]), args[0], "", cmd)}
}

// flagError makes a usage error of a mistake in flags. Behind a mistyped command, that is the mistake: its flags are another's.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case cmd.HasSubCommands() && cmd.Flags().NArg() > 0:
		return OnlyCommands(cmd, cmd.Flags().Args())
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		flags := &cobra.Command{} // its commands are the flags
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			flags.AddCommand(&cobra.Command{Use: f.Name, Hidden: f.Hidden, Run: func(*cobra.Command, []string) {}})
		})
		err = didYouMean(err, unknown.GetSpecifiedName(), "--", flags)
	}
	return &UsageError{err}
}

// didYouMean adds to an error the commands whose names are like a mistyped one, each with a prefix.
func didYouMean(err error, mistyped, prefix string, among *cobra.Command) error {
	among.SuggestionsMinimumDistance = 2
	if names := among.SuggestionsFor(mistyped); len(names) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, prefix+strings.Join(names, " or "+prefix))
	}
	return err
}
