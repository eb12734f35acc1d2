// Ringfold shows, records and replays the events of BPF perf event arrays and ring buffers.
package main

import (
	"os"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/demo"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/doctor"
	fleetdemo "github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/demo"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/list"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/man"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/metrics"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/record"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/stat"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/top"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/trace"
	"github.com/spf13/cobra"
)

func main() { os.Exit(cli.Main(root(), os.Args[1:])) }

// root is the tool. Each command is a package under internal/.
func root() *cobra.Command {
	root := cli.Root()
	root.AddCommand(
		list.Command(),
		tail.Command(),
		top.Command(),
		record.Command(),
		tail.Replay(),
		trace.Command(),
		stat.Command(),
		metrics.Command(),

		fleetdemo.Command(),
		demo.Command(),
		doctor.Command(),
		cli.Version(),
		man.Command(),
	)
	return root
}
