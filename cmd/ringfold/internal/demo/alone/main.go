// Alone is "ringfold demo" for make demo: the rest of the tool takes many times the modules, which a first look need not fetch and build.
package main

import (
	"os"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/demo"
)

func main() {
	root := cli.Root()
	root.AddCommand(demo.Command())
	os.Exit(cli.Main(root, os.Args[1:]))
}
