// Package fleet puts the process events of many hosts into one ordered log, over NATS JetStream:
// each host runs an agent, and any number of tails read.
//
// agent/ reads this host's events and publishes them in batches (wire/), by way of a spool on disk
// (spool/). tail/ merges them. The files here are the commands: agent.go, tail.go and demo.go;
// print.go, text.go and json.go print.
package fleet

import (
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/spf13/cobra"
)

// Command is ringfold fleet.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Merge the process events of many hosts into one ordered log, over NATS JetStream",
		Long: `Merge the process events of many hosts into one ordered log, over NATS JetStream.

Each host runs "fleet agent", which publishes its events. Any number of "fleet tail" print the
events of all hosts in order of time, and say what is missing. "fleet demo" shows it on one machine.`,
		Example: `  ringfold fleet demo --outage
  ringfold fleet agent --url nats://broker:4222
  ringfold fleet tail --url nats://broker:4222 --since 10m --event exec`,
		Args: cli.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(agentCommand(), tailCommand(), demoCommand())
	return cmd
}
