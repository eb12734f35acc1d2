package top

import (
	"os"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
)

func TestMain(m *testing.M) {
	clitest.Program(Command)
	os.Exit(m.Run())
}

func TestMisuse(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
		"what":                 "name a map by id N",
		"--mode fuzzy":         "none of exact, slack, unordered",
		"--interval 1ms":       "10ms at least",
		"--load -1":            "must not be negative",
		"id 0":                 "an id is a number from 1 on",
		"name x --load 5":      "--load is for a map of its own",
		"--steal --load 5":     "--load is for a map of its own",
		"--unheard":            "unknown flag",
		"--timeout -5s":        "must not be negative",
		"name x -- true":       "see ringfold stat",
		"a.data --ring-size x": "is not a size",
	})
}
