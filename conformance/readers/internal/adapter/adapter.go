// Package adapter is what adapters in Go have in common: settings, commands, and the user's function. See PROTOCOL.md.
package adapter

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/ringfold/ringfold/conformance/wire"
)

// Map is a map to read.
type Map struct {
	FD      int
	RingBuf bool
}

// Settings are the arguments. Numbers that were not given are 0, but for Pages.
type Settings struct {
	Maps                             []Map
	Pages, WakeupEvents, WakeupBytes int
	Ordered                          bool
	Poll                             time.Duration
	TimeAt, CPUAt                    int // -1: not told
	Lanes                            int
	Shares                           []int // of the lanes, in percent
	Way                              string
}

// Cannot is an error that says why a library's API cannot express something.
type Cannot string

func (c Cannot) Error() string { return string(c) }

// Reader is the library's reader.
type Reader interface {
	// Open opens readers of all maps, anew after they were closed, and starts to read.
	Open() error
	// Do carries out a command that is not the User's.
	Do(command string, n int) error
}

// Main is an adapter's main function.
func Main(name, version string, newReader func(Settings, *User) Reader) {
	if len(os.Args) > 1 && os.Args[1] == "describe" {
		fmt.Printf("reader=%s version=%s\n", name, version)
		return
	}
	u := newUser()
	settings, err := settings(os.Args[1:])
	if err != nil {
		u.answer(err, wire.Ready, "")
		return
	}
	r := newReader(settings, u)
	if !u.answer(r.Open(), wire.Ready, "") {
		return
	}
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		command, argument, _ := strings.Cut(commands.Text(), " ")
		if command == "quit" {
			return
		}
		n, _ := strconv.Atoi(argument) // 0 if there is none
		err, own := u.do(command, n)
		switch {
		case command == "closein": // by the callback; the rest waits for that to return
			err = r.Do("close", 0)
		case !own:
			err = r.Do(command, n)
		}
		u.answer(err, wire.Done, command)
	}
	r.Do("close", 0)
}

// Version is that of a library, by its Go module's path.
func Version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return strings.TrimPrefix(dep.Version, "v")
			}
		}
	}
	return "unknown"
}

func settings(args []string) (s Settings, err error) {
	s = Settings{Pages: 64, TimeAt: -1, CPUAt: -1}
	var kinds []string
	number := func(text string) int {
		n, e := strconv.Atoi(text)
		err = errors.Join(err, e)
		return n
	}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "maps":
			for fd := range strings.SplitSeq(value, ",") {
				s.Maps = append(s.Maps, Map{FD: number(fd)})
			}
		case "kind":
			kinds = strings.Split(value, ",")
		case "pages":
			s.Pages = number(value)
		case "wakeup_events":
			s.WakeupEvents = number(value)
		case "wakeup_bytes":
			s.WakeupBytes = number(value)
		case "poll":
			s.Poll = time.Duration(number(value)) * time.Millisecond
		case "time":
			s.TimeAt = number(value)
		case "cpu":
			s.CPUAt = number(value)
		case "lanes":
			s.Lanes = number(value)
		case "shares":
			for share := range strings.SplitSeq(value, ",") {
				s.Shares = append(s.Shares, number(share))
			}
		case "way":
			s.Way = value
		case "order":
			s.Ordered = value == "time"
		}
	}
	for i := range s.Maps {
		if len(kinds) > 0 {
			s.Maps[i].RingBuf = kinds[min(i, len(kinds)-1)] == "ringbuf"
		}
	}
	return s, err
}
