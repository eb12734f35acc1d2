// Package list shows the perf event arrays and BPF ring buffers of the system: the command list.
package list

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/spf13/cobra"
)

// Command is "ringfold list".
func Command() *cobra.Command {
	var out cli.Output
	var process string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List perf event arrays and ring buffers, their programs, and the processes that hold them",
		Long: `List the perf event arrays and BPF ring buffers of the system: the programs that use each, the
processes that hold it, and where it is pinned. A process that has rings reads some map, perhaps
another one. list reads no events and disturbs no reader. It needs CAP_SYS_ADMIN.`,
		Example: `  ringfold list
  ringfold list --process execsnoop
  ringfold list -o json | jq -r 'select(.pids == []) | .id'`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			maps, err := bpfmaps.List(process)
			if err != nil {
				return err
			}
			return list(cmd.OutOrStdout(), maps, out.Format)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&process, "process", "", "only maps that this process holds: its `comm|pid`")
	cmd.RegisterFlagCompletionFunc("process", source.CompleteProcess)
	out.Flags(fs)
	return cmd
}

// list prints maps.
func list(w io.Writer, maps []bpfmaps.Map, format cli.Format) error {
	if format == cli.JSON { // an object per map and line
		out := json.NewEncoder(w)
		for _, m := range maps {
			if err := out.Encode(m); err != nil {
				return err
			}
		}
		return nil
	}
	if len(maps) == 0 {
		_, err := fmt.Fprintln(w, "There is no perf event array or BPF ring buffer on this system: start the program that loads one.")
		return err
	}
	if format == cli.Compact {
		for _, m := range maps {
			if _, err := fmt.Fprintf(w, "%d %s %s\n", m.ID, m.Type, dash(m.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tTYPE\tNAME\tENTRIES\tPROGRAMS\tPROCESSES\tPINS")
	for _, m := range maps {
		typ := m.Type
		if m.Overwrites {
			typ += " (overwrite)"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%s\t%s\t%s\n", m.ID, typ, dash(m.Name), m.MaxEntries,
			words(m.Programs, func(p bpfmaps.Program) string { return fmt.Sprintf("%s (id %d)", dash(p.Name), p.ID) }),
			words(m.Processes, func(p bpfmaps.Process) string { return process(m, p) }), words(m.Pins, func(s string) string { return s }))
	}
	if unseen := maps[0].Unseen; unseen != "" {
		fmt.Fprintf(t, "There may be other processes: %s.\n", unseen)
	}
	return t.Flush()
}

func process(m bpfmaps.Map, p bpfmaps.Process) string {
	switch {
	case p.Rings <= 0:
		return p.String()
	case m.RingBuf():
		return fmt.Sprintf("%s (pid %d, has maps mapped)", p.Comm, p.PID)
	case p.Rings == 1:
		return fmt.Sprintf("%s (pid %d, has 1 ring)", p.Comm, p.PID)
	default:
		return fmt.Sprintf("%s (pid %d, has %d rings)", p.Comm, p.PID, p.Rings)
	}
}

// words lists some things, a dash if there are none, and not more than fit into a line.
func words[T any](all []T, word func(T) string) string {
	const most = 3
	var s []string
	for i, one := range all {
		if i == most && len(all) > most+1 {
			s = append(s, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		s = append(s, word(one))
	}
	return dash(strings.Join(s, ", "))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return cli.Printable(s)
}
