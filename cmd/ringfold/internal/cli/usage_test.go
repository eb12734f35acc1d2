package cli

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Flags of a group come together, however they were defined.
func TestGroups(t *testing.T) {
	cmd := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}
	fs := cmd.Flags()
	fs.SortFlags = false
	Group(fs, "Zeta", func(fs *pflag.FlagSet) { fs.IntP("two", "t", 0, "TWO"); fs.Int("one", 0, "ONE") })
	Group(fs, "Alpha", func(fs *pflag.FlagSet) { fs.Int("three", 0, "THREE") })
	Group(fs, "Zeta", func(fs *pflag.FlagSet) { fs.Int("four", 0, "FOUR") })
	fs.Int("alone", 0, "ALONE")
	root := Root()
	root.AddCommand(cmd)
	cmd.InitDefaultHelpFlag()
	require.Contains(t, cmd.UsageString(), `
Zeta:
  -t, --two int    TWO
      --one int    ONE
      --four int   FOUR

Alpha:
      --three int   THREE

Flags:
      --alone int   ALONE
  -h, --help        help for x
`)
	require.NoError(t, fs.Parse([]string{"-t", "2", "--four=4"})) // they are the command's own
}
