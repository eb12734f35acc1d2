package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// heading is the annotation of a flag that says below which heading --help shows it.
const heading = "ringfold_heading"

// Group defines flags that --help shows below a heading of their own; the others are below "Flags".
// All are in the order of their definition.
func Group(fs *pflag.FlagSet, name string, define func(*pflag.FlagSet)) {
	group := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SortFlags, group.SortFlags = false, false
	define(group)
	group.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{heading: {name}}
		fs.AddFlag(f)
	})
}

// groups is the flags for --help: the groups in the order of the first flag of each.
func groups(fs *pflag.FlagSet) string {
	var names []string
	sets := map[string]*pflag.FlagSet{}
	fs.VisitAll(func(f *pflag.Flag) {
		name := "Flags"
		if of := f.Annotations[heading]; len(of) > 0 {
			name = of[0]
		}
		if sets[name] == nil {
			sets[name] = pflag.NewFlagSet(name, pflag.ContinueOnError)
			sets[name].SortFlags = false
			names = append(names, name)
		}
		sets[name].AddFlag(f)
	})
	var b strings.Builder
	for _, name := range names {
		b.WriteString("\n\n" + name + ":\n" + strings.TrimRight(sets[name].FlagUsages(), "\n"))
	}
	return b.String()
}

// These are settings of all commands in the process.
func init() {
	cobra.AddTemplateFunc("groups", groups)
	cobra.EnableCommandSorting = false // they come in the order in which one needs them
}

// setUsage has a command and those below it show its flags in groups: the rest is cobra's own.
func setUsage(root *cobra.Command) {
	const flags = "\n\nFlags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), flags, "{{groups .LocalFlags}}", 1))
}
