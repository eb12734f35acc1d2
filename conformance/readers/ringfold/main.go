//go:build linux

// Command ringfold is ringfold's adapter for the conformance suite: see PROTOCOL.md. Without way=, it reads as most users would: Run,
// or an exact stream where order is asked for. The other ways are way=events, records, batches, fold, rings, exact, slack, channels.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/internal/version"
)

// settings are the arguments, KEY=VALUE.
type settings map[string]string

func (s settings) number(key string, otherwise int) int {
	if n, err := strconv.Atoi(s[key]); err == nil {
		return n
	}
	return otherwise
}

// shares returns those of the lanes.
func (s settings) shares() (percent []int) {
	for share := range strings.SplitSeq(s["shares"], ",") {
		if n, err := strconv.Atoi(share); err == nil {
			percent = append(percent, n)
		}
	}
	return percent
}

// kinds returns the kind of each map.
func (s settings) kinds(maps int) []string {
	kinds := strings.Split(s["kind"], ",")
	for len(kinds) < maps {
		kinds = append(kinds, kinds[0])
	}
	return kinds
}

// subject is what commands act on: one of the ways to read.
type subject interface {
	open() error
	// do carries out a command, and returns a cannot if the way has nothing for it.
	do(command string, n int) error
}

// cannot is an error that says why the API cannot express something.
type cannot string

func (c cannot) Error() string { return string(c) }

func main() {
	s := settings{}
	for _, arg := range os.Args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		s[key] = value
	}
	if _, ok := s["describe"]; ok {
		used, _ := libbpf.Version()
		fmt.Printf("reader=ringfold version=%s,libbpf-%s\n", version.Of(debug.ReadBuildInfo()), used.Version)
		return
	}
	out := wire.NewWriter(os.Stdout)
	var r subject = newReaders(s, out)
	if s["way"] == "channels" {
		r = newChannels(s, out)
	}
	if !answer(out, r.open(), wire.Ready, "") {
		return
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		command, argument, _ := strings.Cut(commands.Text(), " ")
		if command == "quit" {
			return
		}
		n, _ := strconv.Atoi(argument)
		answer(out, r.do(command, n), wire.Done, command)
	}
	r.do("close", 0)
	out.Flush()
}

// answer sends what became of a command.
func answer(out *wire.Writer, err error, good wire.Type, text string) (ok bool) {
	switch e := err.(type) {
	case nil:
		out.Text(good, text)
	case cannot:
		out.Text(wire.Cannot, string(e))
	default:
		out.Text(wire.Error, err.Error())
	}
	return err == nil
}

// spend is the user's callback that takes its time.
func spend(micros int64) {
	if micros > 0 {
		time.Sleep(time.Duration(micros) * time.Microsecond)
	}
}
